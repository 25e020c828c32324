"""Arguments of a command of ``storlet`` for a parser of the OpenStack client, and back."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, cast

import click


def command_of(group: click.Group, name: str) -> click.Command:
    """The command ``name``; the names of the groups that it is in precede its own."""
    found: click.Command = group
    for word in name.split():
        found = cast(click.Group, found).commands[word]
    return found


def positive(text: str) -> int:
    """A number from 1; the type of an argument."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: want a number from 1")
    return int(text)


def add(parser: argparse.ArgumentParser, given: click.Parameter) -> None:
    """Add an option or argument; :func:`words_of` returns its words unchanged."""
    if isinstance(given, click.Option):
        if given.is_flag:
            # With None as its default, an option that is left out stays left out.
            flag: dict[str, Any] = {"dest": given.name, "default": None}
            parser.add_argument(*given.opts, **flag, action="store_true", help=given.help)
            if given.secondary_opts:
                parser.add_argument(*given.secondary_opts, **flag, action="store_false")
        else:
            parser.add_argument(
                *given.opts,
                dest=given.name,
                action="append",
                metavar=f"<{(given.metavar or given.name or '').lower()}>",
                help=given.help,
            )
    else:
        more: dict[str, Any] = {}
        if given.nargs < 0 or not given.required:
            more["nargs"] = "*" if given.nargs < 0 else "?"
        # The metavar of an argument that may be left out is none of argparse's.
        shown = given.name if more else given.metavar or given.name
        parser.add_argument(given.name or "", metavar=f"<{(shown or '').lower()}>", **more)


def words_of(known: Sequence[click.Parameter], given: Mapping[str, Any]) -> list[str]:
    """The command line of ``storlet`` for parsed arguments."""
    options: list[str] = []
    arguments: list[str] = []
    for each in known:
        value = given.get(each.name or "")
        if value is None:
            continue
        if isinstance(each, click.Argument):
            arguments += map(str, value) if isinstance(value, (list, tuple)) else [str(value)]
        elif value is True:
            options.append(each.opts[0])
        elif value is False:
            options.append(each.secondary_opts[0])
        elif value:
            options += [word for one in value for word in (each.opts[0], one)]
    return [*options, "--", *arguments]
