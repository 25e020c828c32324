"""Commands of a package, whose processes begin with its modules imported.

The import takes most of the time of a short command.  Each command has a process of its own, a fork
of one that has imported what earlier commands needed.  :class:`Fork` is a fork of the process of
the tests themselves.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

_CHECKOUT: Final = Path(__file__).resolve().parents[2]

_PROGRAM: Final = """
import sys
sys.path.remove("")  # the folder of the caller, where an installed package may be in source
import contextlib, gc, importlib, json, os, shutil
name, module, function, files_folder = sys.argv[1:]
main = getattr(importlib.import_module(module), function)
for line in sys.stdin:
    number, words, variables, files, folder = json.loads(line)
    gc.freeze()  # else each child copies the pages of all modules to count what refers to them
    pid = os.fork()
    if not pid:
        for number, file in enumerate([os.devnull, *files[:2]]):
            os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644), number)
        os.environ.update(variables)
        os.chdir(folder)
        sys.argv = [name, *words]
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
        with open(files[2], "w") as imported:
            json.dump([*sys.modules], imported)
        sys.exit(code)
    print(number, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    with contextlib.suppress(OSError), open(files[2]) as imported:
        for each in json.load(imported):
            with contextlib.suppress(Exception):
                importlib.import_module(each)
shutil.rmtree(files_folder, ignore_errors=True)  # the session of the tests may have been killed
"""


@dataclass(frozen=True)
class Ended:
    """The exit code of a command and its standard output and error."""

    code: int
    out: str
    err: str


class Commands:
    """See :func:`commands_of`."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, name: str) -> None:
        self._process = process
        self._name = name
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._files = [folder / name for name in ("output", "error", "imported")]

    def run(self, words: Sequence[str], variables: Mapping[str, str], code: int = 0) -> str:
        """Run a command that has to end with ``code``.

        :return: its standard output; its standard error for other codes than 0.
        """
        ended = self.ended(words, variables)
        assert ended.code == code, ended.out + ended.err
        return ended.err if code else ended.out

    def ended(
        self,
        words: Sequence[str],
        variables: Mapping[str, str],
        folder: str = ".",
        terminal: str = "",
    ) -> Ended:
        """Run a command in ``folder``.

        :param terminal: a device that its standard error is; the result has none of it.
        """
        number, files = next(self._numbers), [str(file) for file in self._files]
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            given = [files[0], terminal or files[1], files[2]]
            self._files[1].write_text("")
            asked = json.dumps([number, [*words], dict(variables), given, folder])
            print(asked, file=self._process.stdin, flush=True)
            # A test that was interrupted has left the answer to its command.
            answers = (map(int, line.split()) for line in self._process.stdout)
            code = next((code for answered, code in answers if answered == number), -1)
            output, error = (file.read_text() for file in self._files[:2])
        return Ended(code, output, error)

    def completed(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str = ".",
        capture_output: bool = False,
        **_options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """In place of :func:`subprocess.run` for ``python3 -m NAME``.

        :param env: variables that are set; others are those of all commands.
        """
        *start, name = command[:3]
        assert (start, name) == ([sys.executable, "-m"], self._name)
        ended = self.ended(command[3:], os.environ if env is None else env, str(cwd))
        if not capture_output:
            os.write(1, ended.out.encode())
            os.write(2, ended.err.encode())
        return subprocess.CompletedProcess(command, ended.code, ended.out, ended.err)


@contextmanager
def commands_of(
    place: Path, name: str, module: str, variables: Mapping[str, str] | None = None
) -> Iterator[Commands]:
    """Commands ``name`` of an environment, as by the script of ``main`` of ``module``.

    :param variables: of the environment of all commands.
    """
    with (
        tempfile.TemporaryDirectory(prefix="storlets-commands-") as folder,
        subprocess.Popen(
            [place / "bin/python3", "-c", _PROGRAM, name, module, "main", folder],
            env={"PATH": os.environ["PATH"], **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        yield Commands(process, Path(folder), name)


@contextmanager
def pytest_commands(**variables: str) -> Iterator[Commands]:
    """Sessions of pytest with no plugin that they do not name, and their workers.

    :param variables: of the environment of all sessions.
    """
    inherited = {key: value for key, value in os.environ.items() if key != "STORLETS_FORBID_SKIPS"}
    own = {"PYTHONPATH": str(_CHECKOUT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    given = {**inherited, **own, **variables}
    with commands_of(Path(sys.prefix), "pytest", "pytest", given) as made:
        yield made


class Fork:
    """In place of a :class:`subprocess.Popen` in a session of its own: a fork of this process.

    :param main: the function that it runs.
    :param output: its standard output and error.
    """

    def __init__(self, main: Callable[[], None], output: BinaryIO) -> None:
        self.returncode: int | None = None
        reader, self._input = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            self._run(main, reader, output.fileno())
        os.close(reader)

    def _run(self, main: Callable[[], None], reader: int, output: int) -> None:
        code = 1
        try:
            os.setsid()
            os.close(self._input)
            for number, fd in enumerate((reader, output, output)):
                os.dup2(fd, number)
            sys.stdin, sys.stdout, sys.stderr = map(os.fdopen, range(3), "rww")
            main()
            code = 0
        except BaseException:  # noqa: BLE001 - no test of this process may go on
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def communicate(self, data: bytes, timeout: float) -> None:
        """Send all of its input, and wait for its end."""
        with os.fdopen(self._input, "wb") as file:
            file.write(data)
        ended = os.pidfd_open(self.pid)
        try:
            if not select.select([ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout)
        finally:
            os.close(ended)

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode
