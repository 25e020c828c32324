"""Groups of commands; a misspelt command is refused with the nearest known one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

#: More than any first sentence has: it is not cut.
_SENTENCE_CHARACTERS = 1000


def examples_of(lines: str) -> str:
    """The end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines.splitlines())


class ReaderGone(Exception):
    """The reader of the output closed the pipe (``| head``).

    click itself ends the process for a BrokenPipeError, with the exit code of a problem.
    """


@contextmanager
def _told_apart() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise ReaderGone from error


class Group(click.Group):
    """Lists its commands in the order of their definition."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with _told_apart():  # it prints the help
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _told_apart():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the whole first sentence of each command, in several lines if necessary."""
        rows = [
            (name, self.commands[name].get_short_help_str(_SENTENCE_CHARACTERS))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.commands, 1)
            if not near:
                raise
            text = f"{error.message} Did you mean '{near[0]}'?"
            raise click.UsageError(text, error.ctx) from None

    def example(self, name: str, examples: str) -> Callable[[Callable[..., Any]], click.Command]:
        """Declare a command with ``examples`` at the end of its help."""
        return self.command(name, epilog=examples_of(examples))
