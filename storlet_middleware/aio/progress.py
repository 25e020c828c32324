"""Output of the commands: numbered steps with their duration, and errors with a remedy."""

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
    """A command failed; ``str()`` is the whole message, printed without a traceback."""


class Progress:
    """Numbers the steps of one command and times them."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._began = time.monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print the title when a step begins, and its duration when it ends."""
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
    """Print without buffering: CI and ``make`` read standard output through a pipe."""
    try:
        print(text, end=end, flush=True)  # noqa: T201  (this is the one place)
    except BrokenPipeError:
        # The reader closed the pipe (`| head`): the command continues without output.
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def complain(text: str) -> None:
    """Print an error or a warning to standard error."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201


def tail(path: Path, lines: int = TAIL_LINES) -> str:
    """The end of a log, or the reason why it cannot be read."""
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
    """Run ``command`` with its output appended to ``log``; an error shows the end of the log."""
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
