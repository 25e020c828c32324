"""Runs in real sandboxes on this machine: ``storlet-local`` of the server's package does them.

It is a program of its own, because starting a sandbox needs Docker and root, and the engine needs a
later Python than this package.  Requests go to its standard input as lines of JSON, answers come
through a pipe, and the output of runs goes to a descriptor.  It ends, and removes its sandboxes,
when this process closes the pipe or ends.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, final

from storlet_client.errors import ConfigurationError, StorletsError
from storlet_client.local.run import Input, Outcome

_MODULE, _PROGRAM = "storlet_middleware.local", "storlet-local"
_NOT_INSTALLED = (
    "a sandbox needs the server's package: install swift-storlets on this machine (Linux with"
    " Docker); or "
)
#: The alternative of commands that have the option.
NO_SANDBOX = "leave the sandbox out: --no-sandbox"


def command() -> list[str]:
    """The command that starts it; empty if it is not installed."""
    if importlib.util.find_spec("storlet_middleware") and importlib.util.find_spec(_MODULE):
        return [sys.executable, "-W", "ignore", "-m", _MODULE]
    found = shutil.which(_PROGRAM)
    return [found] if found else []


@final
class LocalNode:
    """A started ``storlet-local``; use it in a ``with`` statement.

    :param output: descriptor that gets the output of all runs.
    :param otherwise: the alternative for a user of a machine without sandboxes, in the error.
    """

    def __init__(self, output: int, otherwise: str = NO_SANDBOX) -> None:
        words = command()
        if not words:
            raise ConfigurationError([_NOT_INSTALLED + otherwise])
        self._otherwise = otherwise
        reader, writer = os.pipe()
        self._answers = os.fdopen(reader, "rb")
        try:
            # A session of its own: an interrupt of the terminal ends this process, and the end of
            # the pipe that one, after it has removed its sandboxes.
            self._process = subprocess.Popen(
                [*words, "--report", str(writer)], stdin=subprocess.PIPE, stdout=output,
                pass_fds=(writer,), start_new_session=True,
            )  # fmt: skip
        except BaseException:
            self._answers.close()
            raise
        finally:
            os.close(writer)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> LocalNode:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._answers.close()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()

    def run(
        self,
        bundle: Path,
        inputs: Sequence[Input],
        parameters: Mapping[str, str],
        limits: Mapping[str, str] | None = None,
        further: Sequence[Path] = (),
        secrets: Mapping[str, bytes] | None = None,
    ) -> Outcome:
        """One run of a bundle.

        :param further: files for the further outputs, which exist.
        :param secrets: those of the run; none if it is not given.
        :raises ConfigurationError: no sandbox can be started; the text has the remedy.
        """
        with tempfile.TemporaryDirectory() as folder:
            files = [
                {"path": str(_regular(each.path, Path(folder, str(number)))),
                 "metadata": dict(each.metadata)}
                for number, each in enumerate(inputs)
            ]  # fmt: skip
            # An older storlet-local does not know "outputs" and "secrets".
            more: dict[str, Any] = {}
            if further:
                more["outputs"] = [str(path.resolve()) for path in further]
            if secrets:
                more["secrets"] = {
                    name: base64.b64encode(value).decode() for name, value in secrets.items()
                }
            return self._ask(
                {"do": "run", "bundle": str(bundle.resolve()), "inputs": files,
                 "parameters": dict(parameters), "limits": dict(limits or {}), **more}
            )  # fmt: skip

    def load(self, bundle: Path) -> Outcome:
        """Load the code of a bundle, without a run."""
        return self._ask({"do": "load", "bundle": str(bundle.resolve())})

    def _ask(self, request: Mapping[str, Any]) -> Outcome:
        stdin = self._process.stdin
        if stdin is None:
            raise AssertionError("the process has an input")
        with contextlib.suppress(BrokenPipeError):  # the answer has the reason
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        line = self._answers.readline()
        answer = json.loads(line) if line else {}
        if "fault" in answer:
            raise ConfigurationError([f"{answer['fault']}\n  or {self._otherwise}"])
        if not answer:
            status = self._process.wait()
            raise StorletsError(f"{_PROGRAM} ended without an answer (exit status {status})")
        return Outcome(**answer)


def _regular(path: Path, copy: Path) -> Path:
    """``path``, or a copy of what another kind of file, such as a pipe, has.

    A file that every user may write is copied, too: a storlet could open its descriptor once more,
    for writing, where the kernel is without Landlock.
    """
    if path.is_file() and not path.stat().st_mode & stat.S_IWOTH:
        return path.resolve()
    with path.open("rb") as source, copy.open("wb") as target:
        shutil.copyfileobj(source, target)
    return copy
