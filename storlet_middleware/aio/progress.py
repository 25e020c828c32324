"""What a person sees while a command works: numbered steps with their seconds, and errors that say what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

TAIL_LINES: Final = 30


class AioError(Exception):
    """A command cannot go on; ``str()`` is the whole explanation and is shown without a traceback."""


class Progress:
    """Numbers the steps of one command and times them."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._began = time.monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Announce a step at once, so that a long one is not silence, and its seconds when it has ended."""
        self._done += 1
        width = len(str(self._total))
        say(f"[{self._done:{width}}/{self._total}] {title} ...", end="")
        began = time.monotonic()
        try:
            yield
        except BaseException:
            say(" failed")
            raise
        say(f" {time.monotonic() - began:.1f} s")

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.monotonic() - self._began


def say(text: str = "", end: str = "\n") -> None:
    """Print at once: CI and ``make`` put a buffer behind standard output."""
    try:
        print(text, end=end, flush=True)  # noqa: T201  (this is the one place)
    except BrokenPipeError:
        # Whoever reads has seen enough (`| head`): what is under way goes on, and says no more.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def complain(text: str) -> None:
    """An error or a warning, kept apart from the output that a script may read."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def tail(path: Path, lines: int = TAIL_LINES) -> str:
    """The end of a log, or a word on why there is none."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - 64 * 1024))
            text = log.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text.splitlines()[-lines:])


def run(
    command: Sequence[str | Path],
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run ``command`` with its output appended to ``log``; failing is an :class:`AioError` that shows the log's end."""
    words = [str(word) for word in command]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        out.write(f"\n$ {' '.join(words)}\n".encode())
        out.flush()
        try:
            code = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=env,
                cwd=cwd,
                check=False,
            ).returncode
        except OSError as error:
            raise AioError(f"{words[0]}: {error.strerror}") from error
    if code:
        raise AioError(f"`{' '.join(words)}` ended with {code}. The end of {log}:\n{tail(log)}")
