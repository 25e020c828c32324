"""The process that answers requests, one after the other, with the engine of the cluster.

The process is ``python -m storlet_middleware.local.session OPTIONS REPORT``: the file of options of
its node, and the descriptor for answers.  It ends at the end of standard input.
``storlet-sandboxd`` starts at the same time, so the first request waits for its socket.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from storlet_middleware import config as configuration
from storlet_middleware import errors, names
from storlet_middleware.bundle import manifest
from storlet_middleware.concurrency import sleep
from storlet_middleware.config import Config
from storlet_middleware.engine import limits
from storlet_middleware.engine.inputs import ContentFiles
from storlet_middleware.engine.invocation import Invocation
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.engine.task import FileInput, Task
from storlet_middleware.errors import BadRequest, StorletError
from storlet_middleware.local import requests
from storlet_middleware.local.bundles import LocalBundle
from storlet_middleware.local.requests import LOAD, InputFile, Reply, Request
from storlet_middleware.proxy.execution.result import Usage
from storlet_middleware.records.record import OK
from storlet_middleware.sandboxd.statsd import NoStats

_OUTPUT: Final = 1
_POLL_SECONDS: Final = 0.02


class _Logger(NoStats):
    """No metrics; warnings go to standard error."""

    def __init__(self) -> None:
        self.warning = logging.getLogger("storlet.local").warning


class Session:
    """Runs on one node.

    :param output: descriptor that gets the output of runs.
    """

    def __init__(self, config: Config, output: int = _OUTPUT) -> None:
        self._config = config
        self._output = output
        self._launcher = Launcher(config, _Logger())
        self._bundles: dict[str, LocalBundle] = {}
        self._numbers = itertools.count(1)

    def answer(self, request: Request) -> Reply:
        """The end of the run of ``request``, whose output is written."""
        try:
            bundle = self._bundle(request.bundle)
            if request.do == LOAD:
                return self._load(bundle)
            return self._run(bundle, request)
        except StorletError as error:
            return _reply(error)
        except OSError as error:
            return Reply(errors.BAD_REQUEST, f"{error.filename or 'file'}: {error.strerror}")

    def _bundle(self, path: str) -> LocalBundle:
        known = self._bundles.get(path)
        if known is None:
            known = self._bundles[path] = LocalBundle(self._config, Path(path))
        return known

    def _run(self, bundle: LocalBundle, request: Request) -> Reply:
        with ExitStack() as opened:
            files = [(opened.enter_context(_file(each)), each) for each in request.inputs]
            inputs = [
                FileInput(fd, each.metadata, size=_size_of(fd) if bundle.version.seekable else None)
                for fd, each in files
            ]
            task = self._task(bundle, request)
            sinks = [_FileSink(opened.enter_context(_written(path))) for path in request.outputs]
            invocation = Invocation(task, inputs, sinks)
            opened.callback(invocation.close)
            try:
                self._launcher.start(invocation, bundle.version, bundle)
                invocation.output.first()
                while chunk := invocation.output.read():
                    _write(self._output, chunk)
                ended = Reply(OK)
            except StorletError as error:
                ended = _reply(error)
            used = Usage(invocation.usage, invocation.bytes_in(), invocation.bytes_out)
            return replace(
                ended,
                metadata=dict(invocation.metadata),
                log=invocation.log.read().decode("utf-8", "replace"),
                usage=used.as_header() if invocation.has_started else "",
                further_metadata=tuple(sink.metadata for sink in sinks),
            )

    def _load(self, bundle: LocalBundle) -> Reply:
        """Load the code, and cancel the run before it begins."""
        with ContentFiles() as files, files.open(b"", {}) as empty:
            task = self._task(bundle, Request(LOAD, ""))
            invocation = Invocation(task, [empty])
            try:
                self._launcher.start(invocation, bundle.version, bundle)
                invocation.await_start()
            finally:
                invocation.close()
        return Reply(OK)

    def _task(self, bundle: LocalBundle, request: Request) -> Task:
        """The task with the checks that a cluster makes of a request.

        :raises BadRequest: with all faults.
        """
        version = bundle.version
        given = {names.LIMIT_PREFIX + name: value for name, value in request.limits.items()}
        wanted, faults = limits.requested(given)
        trust_class = self._config.class_of(version.account, version.name)
        if not faults:
            faults += limits.above_maximum(wanted, names.LIMIT_PREFIX, trust_class, version.limits)
            faults += limits.below_minimum(wanted, names.LIMIT_PREFIX, version.language)
        parameters = dict(request.parameters)
        if request.do != LOAD:
            parameters, wrong = manifest.parameters_of_run(version.parameters, parameters)
            faults += _fault_of_count(version, version.inputs, len(request.inputs), "inputs")
            faults += _fault_of_count(version, version.outputs, 1 + len(request.outputs), "outputs")
            faults += wrong
        if faults:
            raise BadRequest("; ".join(faults))
        effective = self._launcher.effective(version, wanted)
        number = f"local-{next(self._numbers)}"
        task = self._launcher.task(number, parameters, effective, wants_log=True)
        return replace(task, secrets=request.secrets)


def _fault_of_count(
    version: StorletVersion, bounds: Sequence[int], given: int, of: str
) -> list[str]:
    least, most = bounds
    if least <= given <= most:
        return []
    wanted = f"{least}" if least == most else f"{least} to {most}"
    verb = "takes" if of == "inputs" else "makes"
    return [f"number of {of}: {given}: storlet {version.name} {verb} {wanted}"]


def _reply(error: StorletError) -> Reply:
    return Reply(error.code, str(error), error.detail)


@contextlib.contextmanager
def _file(each: InputFile) -> Iterator[int]:
    fd = os.open(each.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def _written(path: str) -> Iterator[int]:
    """A file of the client, which this process, as root, must not create."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield fd
    finally:
        os.close(fd)


class _FileSink:
    """A further output in a file; a :class:`~storlet_middleware.engine.further_outputs.Sink`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.metadata: dict[str, str] = {}

    def begin(self, metadata: Mapping[str, str]) -> None:
        self.metadata = dict(metadata)

    def write(self, chunk: bytes) -> None:
        _write(self._fd, chunk)


def _size_of(fd: int) -> int:
    return os.fstat(fd).st_size


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def serve(session: Session, lines: BinaryIO, report: BinaryIO) -> None:
    """Answer all requests."""
    for line in lines:
        report.write(session.answer(requests.parse(line)).line())
        report.flush()


def _await_sandboxd(config: Config) -> None:
    """Return when sandboxd listens; the owner ends this process if sandboxd ends."""
    while not Path(config.sandbox.run_dir, "sandboxd.sock").exists():
        sleep(_POLL_SECONDS)


def main() -> None:
    logging.basicConfig(format="storlet-local: %(message)s", level=logging.WARNING)
    config = configuration.load(sys.argv[1])
    with os.fdopen(int(sys.argv[2]), "wb") as report:
        try:
            _await_sandboxd(config)
            serve(Session(config), sys.stdin.buffer, report)
        except requests.Malformed as error:
            report.write(requests.fault_line(str(error)))
        except BrokenPipeError:
            # The reader of the output or of the answers has ended.
            os._exit(1)


if __name__ == "__main__":
    main()
