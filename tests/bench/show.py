"""The terminal: progress while it runs, and the table."""

from __future__ import annotations

import sys
import time

from tests.bench.figures import Figure
from tests.bench.promises import Verdict

_WIDTH = 46


class Progress:
    """One line that is rewritten on a terminal; without a terminal, a line for each row."""

    def __init__(self, about_seconds: int) -> None:
        """:param about_seconds: the estimated duration of the run."""
        self._began = time.monotonic()
        self._left = about_seconds
        self._about = 0
        self._row = ""
        self._shown = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def row(self, title: str, about_seconds: int) -> None:
        """Begin a row; the row before it is complete."""
        self._left -= self._about
        self._row, self._about = title, about_seconds
        self._clear()
        print(
            f"{self.seconds:5.0f} s  # {title} (about {about_seconds} s; to the end {_minutes(self._left)})",
            flush=True,
        )

    def step(self, number: int, of: int, what: str = "") -> None:
        """``number`` steps of the row are done."""
        if sys.stderr.isatty():
            self._clear()
            line = f"        {self._row[:40]}: {number}/{of} {what}"
            self._shown = len(line)
            sys.stderr.write(line)
            sys.stderr.flush()

    def say(self, text: str) -> None:
        self._clear()
        print(f"         {text}", flush=True)

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0


def _minutes(seconds: int) -> str:
    return f"about {seconds} s" if seconds < 100 else f"about {seconds / 60:.0f} min"


def line(figure: Figure, verdict: Verdict | None) -> str:
    """One line of the table."""
    if not figure.treated:
        return f"  {figure.title:<{_WIDTH}} not measured: {'; '.join(figure.notes)}"
    own, plain = figure.sides()
    sides = f"{own:9.2f} {figure.unit:<5}" + (
        f" plain {plain:9.2f} {figure.unit:<5}" if plain is not None else " " * 22
    )
    promise = f"  {verdict.word}: {verdict.promise}" if verdict else ""
    notes = "".join(f"\n{'':13}{note}" for note in figure.notes)
    return f"  {figure.title:<{_WIDTH}} {sides}  {figure.value().text(figure.shown_unit):<24}{promise}{notes}"
