"""Behaviour over several invocations: cancels, crashes, leftovers, scaling, adoption, failed
loads."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_daemon.protocol import messages
from tests.conformance.daemon_harness import (
    Code,
    HostSandbox,
    InputFile,
    InputPipe,
    Result,
    Run,
    Storlet,
    count_descriptors,
    running,
    until,
)

#: For what the supervisor does without a worker's help: it is the same program in all languages.
one_language = pytest.mark.parametrize("language", ["python"], indirect=True)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[
            0
        ] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_of(storlet: Storlet) -> int:
    return int(storlet.run(do="pid").output)


# cancel


def test_closing_the_connection_of_a_busy_loop_kills_it_within_a_second(single: Storlet) -> None:
    pid = pid_of(single)
    with single.start(do="spin") as run:
        run.event()
        run.event()
    until(lambda: not is_alive(pid), 1)
    assert single.run(b"next").output == b"next"


def test_shutting_the_connection_down_is_a_cancel_too(single: Storlet) -> None:
    pid = pid_of(single)
    with single.start(do="spin") as run:
        run.event()
        run.connection.shutdown(socket.SHUT_WR)
        until(lambda: not is_alive(pid), 1)


def test_a_storlet_that_waits_for_its_reader_is_cancelled(single: Storlet) -> None:
    pid = pid_of(single)
    with single.start(do="flood") as run:
        run.event()
        run.event()
        time.sleep(0.05)
    until(lambda: not is_alive(pid), 1)
    assert single.run(b"next").output == b"next"


def test_a_storlet_that_stopped_itself_is_cancelled(single: Storlet) -> None:
    pid = pid_of(single)
    with single.start(do="kill", signal=str(int(signal.SIGSTOP))) as run:
        run.event()
        time.sleep(0.1)
    until(lambda: not is_alive(pid), 1)
    assert single.run(b"next").output == b"next"


def test_a_filter_that_disconnects_at_any_time_affects_no_other_invocation(
    probe: Storlet, language: str
) -> None:
    """Invocations end just as their connections close: no other invocation may be killed.

    Many disconnections end the worker.  The supervisor is the same for all languages, and a JVM
    takes long to start.
    """
    chance = random.Random(1)  # noqa: S311
    for turn in range(20 if language == "java" else 60):
        # A connection is watched from 20 ms on.
        short = turn % 2
        with probe.start(do="sleep", seconds="0.002" if short else "0.025") as run:
            time.sleep(chance.uniform(0, 0.006) if short else chance.uniform(0.02, 0.032))
            run.close()
        text = str(turn).encode()
        result = probe.run(text)
        assert result.output == text
        assert result.done.is_ok


def test_a_worker_continues_if_the_filter_disconnects_after_done(probe: Storlet) -> None:
    """Longer than the supervisor's watch delay: it sees the disconnect before the end report."""
    pid = pid_of(probe)
    for _ in range(30):
        assert probe.run(do="sleep", seconds="0.03").done.is_ok
    # On a busy machine a second worker may have been started meanwhile and serve the run.
    assert is_alive(pid)
    until(lambda: probe.group.runs == 31)
    assert probe.group.failures == 0


def test_connections_closed_before_their_accept_are_ignored(probe: Storlet) -> None:
    for _ in range(20):
        probe.connect().close()
        Run(probe.connect(), [InputPipe(b"")]).close()
    assert probe.run(b"next").output == b"next"


def test_a_run_whose_filter_has_gone_before_its_start_does_not_begin(single: Storlet) -> None:
    pid = pid_of(single)
    before = int(single.run(do="count").output)
    with running(single.start(do="sleep", seconds="0.3")) as run:
        for _ in range(3):
            single.start(do="count").close()
        assert run.finish().output == b"slept"
    counted = int(single.run(do="count").output)
    # Of the run that slept, and of this one.
    assert (counted - before, pid_of(single)) == (2, pid)
    until(lambda: not single.group.busy)


# objects of a run


def test_objects_of_an_earlier_run_raise_and_touch_no_descriptor(single: Storlet) -> None:
    """The number of the earlier log's descriptor is that of an input in the next run."""
    pid = pid_of(single)
    assert single.run(b"earlier", do="keep", log_limit=65536).output == b"kept"
    for _ in range(3):
        result = single.run(InputFile(b"later"), do="use_kept", log_limit=65536)
        assert result.output == b"raised raised raised later"
        assert result.log == b""
    assert pid_of(single) == pid


# death and leftovers


def test_a_worker_killed_from_outside_is_reported_and_replaced(single: Storlet) -> None:
    pid = pid_of(single)
    with running(single.start(do="sleep", seconds="60")) as run:
        os.kill(pid, signal.SIGKILL)
        result = run.finish()
    assert result.done.code == messages.FAILED
    assert "killed by signal 9 (SIGKILL)" in (result.done.message or "")
    assert single.run(b"next").output == b"next"
    assert pid_of(single) != pid


def test_a_worker_killed_while_idle_causes_no_error(probe: Storlet) -> None:
    os.kill(pid_of(probe), signal.SIGKILL)
    assert probe.run(b"next").output == b"next"


def test_a_group_whose_workers_were_all_killed_continues_to_serve(
    probe: Storlet, sandbox: HostSandbox
) -> None:
    for _ in range(5):
        pid_of(probe)
        # A worker that is killed during an invocation is replaced at once.
        until(lambda: not probe.group.busy)
        for pid in sandbox.descendants():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not sandbox.descendants())
    assert probe.run(b"next").output == b"next"


@pytest.mark.parametrize("do", ["leave_process", "leave_orphan"])
def test_processes_that_are_left_behind_are_killed(single: Storlet, do: str) -> None:
    worker = pid_of(single)
    result = single.run(do=do)
    assert result.done.is_ok
    until(lambda: not is_alive(int(result.output)), 2)
    until(lambda: not is_alive(worker), 6)
    assert single.run(b"next").output == b"next"


def test_processes_of_a_cancelled_storlet_are_killed(single: Storlet, sandbox: HostSandbox) -> None:
    pid = pid_of(single)
    with running(single.start(do="spin")):
        assert is_alive(pid)
    until(lambda: not is_alive(pid), 1)
    until(lambda: len(sandbox.descendants()) <= 1, 2)


def test_a_worker_with_a_thread_left_behind_is_replaced(single: Storlet) -> None:
    pid = pid_of(single)
    assert single.run(do="leave_thread").done.is_ok
    until(lambda: not is_alive(pid), 6)
    assert single.run(b"next").output == b"next"


def test_a_worker_is_replaced_after_a_failure_and_kept_after_a_success(single: Storlet) -> None:
    first = pid_of(single)
    assert pid_of(single) == first
    single.run(do="raise")
    assert pid_of(single) != first


def test_a_worker_is_replaced_after_its_maximum_of_runs(
    sandbox: HostSandbox, code: Callable[[str], Code]
) -> None:
    storlet = sandbox.load(code("probe"), workers_max=1, runs_per_worker=3)
    counts = [int(storlet.run(do="count").output) for _ in range(7)]
    assert counts == [1, 2, 3, 1, 2, 3, 1]


def test_a_worker_is_replaced_at_its_age(sandbox: HostSandbox, code: Callable[[str], Code]) -> None:
    storlet = sandbox.load(code("probe"), workers_max=1, worker_seconds=1e-6)
    assert [int(storlet.run(do="count").output) for _ in range(3)] == [1, 1, 1]


def test_the_end_of_the_supervisor_ends_everything(probe: Storlet, sandbox: HostSandbox) -> None:
    with running(probe.start(do="spin")):
        pids = sandbox.descendants()
        assert pids
        sandbox.process.send_signal(signal.SIGTERM)
        assert sandbox.process.wait(10) == 0
        until(lambda: not any(map(is_alive, pids)), 2)


# many


def test_two_hundred_connections_at_once_all_succeed(
    sandbox: HostSandbox, code: Callable[[str], Code]
) -> None:
    storlet = sandbox.load(code("probe"), workers_max=3)
    results: dict[int, Result] = {}
    runs = [storlet.start(str(number).encode()) for number in range(200)]

    def finish(number: int) -> None:
        with runs[number] as run:
            results[number] = run.finish(60)

    threads = [threading.Thread(target=finish, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert sorted(results) == list(range(200))
    for number, result in results.items():
        assert result.done.is_ok
        assert result.output == str(number).encode()
    assert 1 <= storlet.group.workers <= 3


def test_hundreds_of_invocations_leave_nothing_behind(
    sandbox: HostSandbox, code: Callable[[str], Code]
) -> None:
    storlet = sandbox.load(code("probe"), workers_max=1, runs_per_worker=100)
    storlet.run()
    ours = count_descriptors()
    supervisors = sandbox.descriptors()
    for number in range(300):
        text = str(number).encode()
        assert storlet.run(text, log_limit=1000).output == text
    until(lambda: len(sandbox.descendants()) == 1)
    until(lambda: sandbox.descriptors() <= supervisors)
    assert count_descriptors() <= ours
    until(lambda: storlet.group.runs == 301)
    assert storlet.group.failures == 0


def test_workers_are_added_when_all_are_busy_and_retired_when_idle_to_none(
    sandbox: HostSandbox, code: Callable[[str], Code]
) -> None:
    storlet = sandbox.load(code("probe"), workers_max=3, idle_seconds=1)
    with (
        running(storlet.start(do="sleep", seconds="2")),
        running(storlet.start(do="sleep", seconds="2")),
    ):
        assert storlet.group.workers == 2
        assert storlet.group.busy == 2
        with (
            running(storlet.start(do="sleep", seconds="0.1")) as third,
            storlet.start(b"fourth waits") as fourth,
        ):
            assert third.finish().done.is_ok
            assert storlet.group.workers == 3
            assert fourth.finish().output == b"fourth waits"
    until(lambda: storlet.group.workers == 0 and not sandbox.descendants())
    assert storlet.run(b"again").output == b"again"
    assert storlet.group.workers == 1


# the node daemon comes and goes


@one_language
def test_a_sandbox_serves_without_the_node_daemon_and_is_adopted(
    single: Storlet, sandbox: HostSandbox
) -> None:
    pid = pid_of(single)
    sandbox.drop_control()
    assert single.run(b"alone").output == b"alone"
    sandbox.accept()
    assert sandbox.hello == messages.Hello(sandbox.pid, (single.code.version,))
    assert pid_of(single) == pid
    again = sandbox.load(single.code)
    assert again.run(b"adopted").output == b"adopted"
    assert list(sandbox.groups()) == [single.code.version]


@one_language
def test_a_new_listening_socket_does_not_end_running_invocations(
    probe: Storlet, sandbox: HostSandbox
) -> None:
    with running(probe.start(do="sleep", seconds="0.5")) as run:
        again = sandbox.load(probe.code)
        assert again.run(b"new").output == b"new"
        assert run.finish().output == b"slept"


@one_language
def test_a_group_that_is_unloaded_refuses_and_finishes(
    probe: Storlet, sandbox: HostSandbox
) -> None:
    with running(probe.start(do="sleep", seconds="0.5")) as run:
        sandbox.unload(probe)
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as late,
            pytest.raises(ConnectionRefusedError),
        ):
            late.connect(probe.path)
        assert sandbox.groups() == {}
        assert run.finish().output == b"slept"
    until(lambda: not sandbox.descendants())
    sandbox.unload(probe)
    assert sandbox.load(probe.code).run(b"back").output == b"back"


@one_language
def test_the_backlog_of_a_group_that_is_unloaded_is_served(
    sandbox: HostSandbox, code: Callable[[str], Code]
) -> None:
    storlet = sandbox.load(code("probe"), workers_max=1)
    with (
        running(storlet.start(do="sleep", seconds="0.3")) as run,
        storlet.start(b"waits") as waiting,
    ):
        sandbox.unload(storlet)
        assert run.finish().output == b"slept"
        assert waiting.finish().output == b"waits"


@one_language
def test_invalid_commands_are_refused(sandbox: HostSandbox) -> None:
    load = messages.Load(
        request=5, version="0" * 64, code="0" * 64, language="cobol", main="A", file="a", name="a"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        answer = sandbox.ask(load, (listening.fileno(),))
    assert isinstance(answer, messages.Refused)
    assert answer.request == 5
    assert "cobol" in answer.message


@one_language
@pytest.mark.parametrize(
    "text", ["garbage", '{"type":"load","v":1}', '{"type":"status","request":-1}', "[" * 60000]
)
def test_garbage_on_the_control_connection_closes_only_that_connection(
    probe: Storlet, sandbox: HostSandbox, text: str
) -> None:
    assert sandbox.control is not None
    sandbox.control.send(text.encode())
    assert sandbox.report() is None
    sandbox.drop_control()
    sandbox.accept()
    assert probe.run(b"next").output == b"next"


# loads that fail


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("loadfail", "no such luck"),
        ("loadexit", "exited with code 3"),
        ("loadquit", ""),
        ("loadempty", "oadempty"),
        ("loadhang", "longer than 1 seconds"),
    ],
)
def test_code_that_cannot_be_loaded_is_reported(
    sandbox: HostSandbox, code: Callable[[str], Code], name: str, expected: str
) -> None:
    storlet = sandbox.load(code(name), load_seconds=1 if name == "loadhang" else 30)
    started = time.monotonic()
    for _ in range(3):
        result = storlet.run(b"unread", log_limit=10000)
        assert result.types == ["done"]
        assert result.done.code == messages.LOAD
        told = f"{result.done.message} {result.done.traceback}"
        assert expected in told
        if name == "loadexit":
            assert "last words" in told
    assert time.monotonic() - started < 15
    assert len(sandbox.descendants()) <= 1


def test_a_missing_storlet_is_reported(sandbox: HostSandbox, code: Callable[[str], Code]) -> None:
    of = code("probe")
    # A native storlet's main names its file.
    main = "absent" + of.main if of.language == "native" else of.main
    result = sandbox.load(Code(of.folder, main, "absent" + of.file, of.language)).run()
    assert result.done.code == messages.LOAD
