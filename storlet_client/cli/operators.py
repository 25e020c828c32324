"""Commands that the package of the server has: ``sandboxes``, and the offline checks of rules.

They run here if that package (``swift-storlets``) is installed beside this one.
"""

from __future__ import annotations

import importlib.util

import click

from storlet_client.cli.context import NOT_CONFIGURED
from storlet_client.cli.groups import Group

_PACKAGE = "storlet_middleware"
_RULES = {
    "check": "Find problems of rules in a file (offline).",
    "test": "Decide example requests by rules in a file (offline).",
    "explain": "Explain the decision on a hypothetical request (offline).",
    "who-can": "Show which callers get an object (offline).",
    "diff": "Compare two versions of rules (offline).",
}
_PASSED_ON = {"ignore_unknown_options": True, "help_option_names": []}


def declare(group: Group) -> None:
    """Add ``sandboxes`` to ``group``."""
    _add(group, ("sandboxes",), "Show the sandboxes of this node (operators).")


def declare_rules(group: Group) -> None:
    """Add the offline verbs to the group ``rules``."""
    for verb, help_ in _RULES.items():
        _add(group, ("rules", verb), help_)


def _add(group: Group, words: tuple[str, ...], help_: str) -> None:
    @group.command(words[-1], help=help_, context_settings=_PASSED_ON)
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def run(context: click.Context, arguments: tuple[str, ...]) -> None:
        context.exit(_run([*words, *arguments]))


def _run(words: list[str]) -> int:
    if importlib.util.find_spec(_PACKAGE) is None:
        click.echo(
            "storlet: this command is part of the server's package: install swift-storlets here, or"
            " run it on a node of the cluster",
            err=True,
        )
        return NOT_CONFIGURED
    from storlet_middleware.cli.__main__ import main  # noqa: PLC0415 - may be missing

    return main(words)
