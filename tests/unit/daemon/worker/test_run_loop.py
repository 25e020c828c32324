"""A worker serves connections: its events to the filter, and its reports to the supervisor.

Each test runs the loop in a child process, with the sockets of a real worker.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon import kernel
from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.descriptors import sealed_memory
from storlet_daemon.protocol.messages import (
    Begin,
    Done,
    End,
    Input,
    Invoke,
    LoadFailed,
    Log,
    Metadata,
    Output,
    Ready,
    Started,
)
from storlet_daemon.worker import run_loop
from storlet_daemon.worker.config import WorkerConfig

STORLET = """\
import os, sys

class Sample:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        self.logger.info("running")
        out_files[0].set_metadata(in_files[0].get_metadata())
        names = {"data": in_files[0].read(), "source": in_files[0], "target": out_files[0]}
        names["params"] = params
        exec(params.get("code", ""), globals(), names)
        out_files[0].write(names["data"].upper())
"""


class Worker:
    """A worker process, and the ends of its sockets at the filter and the supervisor."""

    def __init__(self, folder: Path, *, runs: int = 100, refusal: LoadFailed | None = None) -> None:
        self._path = str(folder / "storlet.sock")
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(self._path)
        listening.listen()
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel.settimeout(20)
        config = WorkerConfig(
            listening.fileno(), theirs.fileno(), "sample.Sample", "sample.py", str(folder), runs
        )
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.channel.close()
                _become_worker(config, refusal)
            finally:
                os._exit(99)
        self.listening = listening
        theirs.close()

    def report(self) -> Any:
        """The next report; the connection of a ``begin`` is closed."""
        received = framing.receive(self.channel)
        if received is None:
            return None
        with received.descriptors:
            return received.message(messages.WORKER_REPORTS)

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(20)
        connection.connect(self._path)
        return connection

    def run(self, data: bytes = b"data", **parameters: str) -> Run:
        return Run(self.connect(), data, parameters)

    def run_with(self, secrets: dict[str, str], code: str) -> Run:
        return Run(self.connect(), b"data", {"code": code}, secrets)

    def exit_code(self) -> int:
        pid, self.pid = self.pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def close(self) -> None:
        self.channel.close()
        self.listening.close()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _become_worker(config: WorkerConfig, refusal: LoadFailed | None) -> None:
    kernel.adopt_orphans()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    if refusal is not None:
        run_loop.refuse(config, refusal)
    run_loop.serve(config)


class Run:
    """One invocation, with pipes for its input and output, from the filter's side."""

    def __init__(
        self,
        connection: socket.socket,
        data: bytes,
        parameters: dict[str, str],
        secrets: dict[str, str] | None = None,
    ) -> None:
        source, feeding = os.pipe()
        reading, target = os.pipe()
        log = sealed_memory("log", 1000)
        os.write(feeding, data)
        os.close(feeding)
        inputs, log_of = (Input(0, {"color": "red"}),), Log(2, 1000)
        invoke = Invoke("tx-1", inputs, Output(1), parameters, log_of, secrets=secrets)
        framing.send(connection, invoke, [source, target, log])
        os.close(source)
        os.close(target)
        with os.fdopen(reading, "rb") as file:
            self.output = file.read()
        # As for the filter, all events of a worker are there at the end of the output.
        connection.setblocking(False)
        with connection:
            self.events = list(_events(connection))
        self.log = os.pread(log, 1000, 0).rstrip(b"\0").decode()
        os.close(log)

    @property
    def done(self) -> Done:
        event = self.events[-1]
        assert isinstance(event, Done)
        return event


def _events(connection: socket.socket) -> Iterator[Any]:
    while True:
        received = framing.receive(connection)
        if received is None:
            return
        event = received.message(messages.INVOCATION_EVENTS)
        yield event
        if isinstance(event, Done):
            return


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sample.py").write_text(STORLET)
    return tmp_path


@pytest.fixture
def worker(folder: Path) -> Iterator[Worker]:
    made = Worker(folder)
    assert made.report() == Ready()
    yield made
    made.close()


def test_an_invocation_from_its_start_to_its_end(worker: Worker) -> None:
    run = worker.run()
    assert run.events[:2] == [Started(), Metadata({"color": "red"})]
    assert (run.done.outcome, run.output) == ("ok", b"DATA")
    assert run.done.usage is not None
    assert run.done.usage.peak_memory_bytes > 1 << 20
    assert run.log == "sample.Sample INFO: running\n"
    assert [worker.report(), worker.report()] == [Begin(), End()]


def test_a_worker_serves_one_run_after_another(worker: Worker) -> None:
    for number in range(5):
        assert worker.run(b"x%d" % number).output == b"X%d" % number
        assert [worker.report(), worker.report()] == [Begin(), End()]


def test_parameters_and_the_folder_of_the_code_reach_the_storlet(
    worker: Worker, folder: Path
) -> None:
    code = "data = f\"{params['key']} {params['storlet_execution_path']}\".encode()"
    assert worker.run(code=code, key="value").output == f"value {folder}".upper().encode()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('wrong')", "ValueError: wrong"),
        ("sys.exit(3)", "storlet exited with code 3 before it was done"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_a_failed_run_is_reported_and_its_worker_replaced(
    worker: Worker, code: str, message: str
) -> None:
    run = worker.run(code=code)
    assert (run.done.code, run.done.message) == (messages.FAILED, message)
    assert run.done.traceback is not None
    assert message.partition(":")[0] in run.log or "SystemExit" in run.log
    assert worker.report() == Begin()
    assert worker.report() == End(recycle=True, failed=True)
    assert worker.exit_code() == 0


@pytest.mark.parametrize(
    "code",
    [
        "sys.stdout.detach()",
        "sys.stdout.close()",
        "os.close(source.fileno())",
    ],
)
def test_a_storlet_may_damage_its_own_files(worker: Worker, code: str) -> None:
    run = worker.run(code=code)
    assert (run.done.outcome, run.output) == ("ok", b"DATA")
    assert worker.report() == Begin()
    assert isinstance(worker.report(), End)


def test_a_storlet_that_detaches_its_output_fails(worker: Worker) -> None:
    run = worker.run(code="target.detach()")
    assert run.done.message == "ValueError: raw stream has been detached"
    assert worker.report() == Begin()
    assert worker.report() == End(recycle=True, failed=True)


def test_a_run_that_leaves_a_thread_ends_its_worker(worker: Worker) -> None:
    code = (
        "import threading, time; threading.Thread(target=time.sleep, args=[9], daemon=True).start()"
    )
    assert worker.run(code=code).done.is_ok
    assert [worker.report(), worker.report()] == [Begin(), End(recycle=True)]
    assert worker.exit_code() == 0


def test_a_worker_is_recycled_after_its_number_of_runs(folder: Path) -> None:
    worker = Worker(folder, runs=2)
    assert worker.report() == Ready()
    ends = []
    for _ in range(2):
        assert worker.run().done.is_ok
        assert worker.report() == Begin()
        ends.append(worker.report())
    assert ends == [End(), End(recycle=True)]
    assert worker.exit_code() == 0
    worker.close()


def test_a_copy_of_the_worker_that_leaves_the_storlet_reports_nothing(worker: Worker) -> None:
    code = (
        "if os.fork() == 0: raise ValueError('of the copy')\n"
        "data = str(os.waitstatus_to_exitcode(os.wait()[1])).encode()"
    )
    assert worker.run(code=code).output == b"1"
    assert [worker.report(), worker.report()] == [Begin(), End()]


def test_an_invalid_message_is_answered_and_not_reported(worker: Worker) -> None:
    with worker.connect() as connection:
        connection.send(b'{"type":"invoke"}')
        (done,) = _events(connection)
    assert (done.code, done.usage) == (messages.PROTOCOL, None)
    with worker.connect():
        pass  # a filter that disconnects before it sends anything
    assert worker.run().output == b"DATA"
    assert worker.report() == Begin()


def test_the_end_of_the_channel_ends_a_worker_after_the_queued_invocations(
    worker: Worker,
) -> None:
    worker.channel.shutdown(socket.SHUT_WR)
    assert worker.exit_code() == 0


def test_a_failed_load_answers_every_invocation(folder: Path) -> None:
    (folder / "sample.py").write_text("import no_such_module\n")
    worker = Worker(folder)
    report = worker.report()
    assert report.message == "ModuleNotFoundError: No module named 'no_such_module'"
    for _ in range(2):
        run = worker.run()
        assert (run.done.code, run.done.message) == (messages.LOAD, report.message)
        assert "no_such_module" in run.log
    worker.channel.shutdown(socket.SHUT_WR)
    assert worker.exit_code() == 0
    worker.close()


def test_a_refusing_worker_loads_nothing(folder: Path) -> None:
    (folder / "sample.py").write_text("import os; os._exit(5)\n")
    worker = Worker(folder, refusal=LoadFailed("python 3.2 is not in this sandbox"))
    run = worker.run()
    assert (run.done.code, run.done.message) == (
        messages.LOAD,
        "python 3.2 is not in this sandbox",
    )
    assert run.done.message in run.log
    worker.close()


SECRET = {"api-token": base64.b64encode(b"the value of a secret").decode()}


def test_a_run_has_its_secrets_and_the_next_one_does_not(worker: Worker) -> None:
    code = "from storlet import secrets; data = secrets.get('api-token')"
    assert worker.run_with(SECRET, code).output == b"THE VALUE OF A SECRET"
    assert [worker.report(), worker.report()] == [Begin(), End()]
    run = worker.run(code=code)
    assert run.done.code == messages.FAILED
    assert run.done.message is not None
    assert run.done.message.startswith("SecretError: this run has no secret 'api-token'")


@pytest.mark.parametrize("padding", [0, 480, 9000])
def test_no_text_of_a_failed_run_has_a_value(worker: Worker, padding: int) -> None:
    code = (
        "from storlet import secrets\n"
        f"raise ValueError('x' * {padding} + secrets.get('api-token').decode() + 'y' * {padding})"
    )
    run = worker.run_with(SECRET, code)
    assert run.done.message is not None
    assert run.done.traceback is not None
    shown = run.done.message + run.done.traceback + run.log
    assert padding == 9000 or "[secret]" in shown
    # Nor a part of it, where a text was cut.
    assert "the val" not in shown
    assert "of a" not in shown
