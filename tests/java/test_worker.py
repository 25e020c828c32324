"""One Java worker, as its supervisor and its filter see it."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from tests.java.harness import Part, Run, Worker, receive, send

TEXTS = {"k": "v", "ü": "é😀\n"}


RANGE = Part(b"x", is_file=True, fields={"start": 0})


def at_rest(worker: Worker) -> int:
    """The number of open descriptors after a first run. It reads a range, for which the JVM creates
    a socket pair once.
    """
    worker.run([RANGE], "runs", log_limit=1000)
    worker.reports()
    return worker.descriptors()


def failed(code: str) -> dict[str, str]:
    return {"type": "done", "outcome": "error", "code": code}


# --- a run that succeeds ------------------------


def test_bytes_and_metadata_are_copied(worker: Worker) -> None:
    data = os.urandom(1_000_000)
    outcome = worker.run([Part(data, fields={"metadata": TEXTS})])
    assert outcome.is_ok()
    assert (outcome.output, outcome.metadata) == (data, TEXTS)
    assert outcome.done["usage"]["cpu_seconds"] >= 0
    assert outcome.done["usage"]["peak_memory_bytes"] > 1 << 20
    assert worker.reports() == [
        {"type": "begin"},
        {"type": "end", "recycle": False, "failed": False},
    ]


@pytest.mark.parametrize("what", ["nothing", "join", "channel", "write by threads"])
def test_metadata_that_is_not_set_is_empty(worker: Worker, what: str) -> None:
    outcome = worker.run(b"data", what)
    assert outcome.is_ok()
    assert outcome.metadata == {}
    lengths = {"nothing": 0, "join": 4, "channel": len("by channel"), "write by threads": 4000}
    assert len(outcome.output) == lengths[what]


@pytest.mark.parametrize("is_file", [False, True])
def test_an_input_is_read_whole_or_skipped_also_where_it_has_no_position(
    worker: Worker, is_file: bool
) -> None:
    data = b"0123456789" * 20_000
    outcome = worker.run([Part(data, is_file=is_file)], "read whole")
    assert outcome.is_ok()
    assert outcome.output == data[:3] + b"2" + data[5:] + b"0"


def test_one_instance_serves_many_invocations_and_leaks_nothing(worker: Worker) -> None:
    before = at_rest(worker)
    for number in range(2, 40):
        assert worker.run([Part(), RANGE], "runs", log_limit=1000).output == b"%d" % number
        worker.reports()
    assert worker.descriptors() == before


def test_parameters_have_the_execution_path(worker: Worker) -> None:
    outcome = worker.run(b"", "parameters", a="b=c", storlet_execution_path="/forged")
    assert (
        outcome.output.decode() == "{a=b=c, do=parameters, storlet_execution_path=/execution/path}"
    )


def test_ranges_include_their_ends_and_do_not_disturb_each_other(worker: Worker) -> None:
    digits = b"0123456789"
    chosen = [
        {"start": 2, "end": 5},
        {"start": 8},
        {"end": 1},
        {"start": 5, "end": 99},
        {"start": 10, "end": 20},
    ]
    outcome = worker.run([Part(digits, is_file=True, fields=fields) for fields in chosen], "join")
    assert outcome.output == b"2345" + b"89" + b"01" + b"56789" + b""


def test_ranges_of_one_open_file_share_no_offset(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "digits").write_bytes(b"0123456789")
    shared = os.open(tmp_path / "digits", os.O_RDONLY)
    run = Run(worker.connect())
    inputs = [{"fd": 0, "start": 0, "end": 4}, {"fd": 1, "start": 5}]
    message = {
        "v": 1,
        "type": "invoke",
        "id": "a",
        "parameters": {"do": "zip"},
        "inputs": inputs,
        "output": {"fd": 2},
    }
    send(run.connection, json.dumps(message).encode(), [shared, os.dup(shared), run._writing])
    os.close(run._writing)
    assert run.finish().output == b"0516273849"


def test_libraries_and_the_folder_of_the_jar_are_available(worker: Worker, probe_jar: Path) -> None:
    outcome = worker.run(b"", "libraries", log_limit=1000)
    assert outcome.output.decode() == "{}" + str(probe_jar.parent)
    assert b"by slf4j" in outcome.log


# --- metadata ------------------------


def test_metadata_may_be_written_as_json(worker: Worker) -> None:
    text = '{"a": "b", "n": 3, "t": true, "l": [1, "x"], "z": null}'
    outcome = worker.run(b"", "metadata stream", json=text)
    assert outcome.is_ok()
    assert outcome.metadata == {"a": "b", "n": "3", "t": "true", "l": '[1,"x"]'}
    assert worker.run(b"", "metadata stream, not closed").metadata == {"a": "b"}


def test_values_of_other_types_become_text(worker: Worker) -> None:
    assert worker.run(b"", "metadata of raw types").metadata == {
        "number": "5",
        "text": 'é😀\ufffd\x01"',
    }


def test_metadata_that_was_set_is_removed_from_its_map(worker: Worker) -> None:
    outcome = worker.run(b"", "metadata is emptied")
    assert (outcome.metadata, outcome.output) == ({"a": "b"}, b"{}")


def test_metadata_may_come_after_the_output_was_closed(worker: Worker) -> None:
    outcome = worker.run(b"", "metadata after close")
    assert outcome.is_ok()
    assert outcome.metadata == {"a": "b"}


@pytest.mark.parametrize("what", ["metadata twice", "metadata after data"])
def test_metadata_comes_once_and_first(worker: Worker, what: str) -> None:
    outcome = worker.run(b"", what)
    assert outcome.types == ["started", "metadata", "done"]
    assert outcome.done.items() >= failed("storlet.failed").items()


def test_metadata_up_to_the_limit_passes(worker: Worker) -> None:
    assert worker.run(b"", "large metadata", bytes="100", limits={"metadata_bytes": 100}).is_ok()
    assert worker.run(b"", "large metadata", bytes="60000", limits={"metadata_bytes": 0}).is_ok()


@pytest.mark.parametrize(
    ("size", "limits"),
    [("4097", None), ("101", {"metadata_bytes": 100}), ("70000", {"metadata_bytes": 0})],
)
def test_metadata_above_the_limit_fails_even_if_the_storlet_continues(
    worker: Worker, size: str, limits: dict[str, int] | None
) -> None:
    outcome = worker.run(b"", "large metadata", bytes=size, limits=limits)
    assert outcome.types == ["started", "done"]
    assert outcome.done.items() >= failed("storlet.limit.metadata").items()
    assert outcome.output == b""


def test_metadata_that_is_not_json_is_a_failure(worker: Worker) -> None:
    outcome = worker.run(b"", "metadata stream", json='{"a')
    assert outcome.done.items() >= failed("storlet.failed").items()
    assert "JSON" in outcome.done["message"]


# --- a run that fails ------------------------


def test_a_storlet_exception_is_one_line_and_in_the_log(worker: Worker) -> None:
    outcome = worker.run(b"", "raise", text="first\nsecond", log_limit=1000)
    assert outcome.types == ["started", "done"]
    assert outcome.done.items() >= (failed("storlet.failed") | {"message": "first second"}).items()
    traceback = outcome.done["traceback"]
    assert "at probe.Probe.invoke(Probe.java:" in traceback
    assert "openstack.storlet.daemon" not in traceback
    assert outcome.log.decode() == f"probe.Probe ERROR: {traceback}"
    assert worker.reports()[1] == {"type": "end", "recycle": True, "failed": True}
    assert worker.process.wait(10) == 0


def test_bytes_before_a_failure_are_followed_by_the_failure(worker: Worker) -> None:
    outcome = worker.run(b"", "fail half-way")
    assert outcome.types == ["started", "metadata", "done"]
    assert (len(outcome.output), outcome.done["outcome"]) == (1000, "error")
    assert outcome.done["message"] == "java.lang.IllegalStateException: half-way"


@pytest.mark.parametrize(
    ("what", "code", "text"),
    [
        ("overflow", "storlet.failed", "StackOverflowError"),
        ("hoard", "storlet.limit.memory", "OutOfMemoryError"),
        ("use what is missing", "storlet.load", "probe/Absent"),
        ("write after close", "storlet.failed", "a write to the output failed"),
    ],
)
def test_errors_have_their_codes(worker: Worker, what: str, code: str, text: str) -> None:
    outcome = worker.run(b"", what)
    assert outcome.done.items() >= failed(code).items()
    assert text in outcome.done["message"]
    assert len(outcome.done["traceback"].encode()) <= 16384
    assert worker.reports()[1]["recycle"] is True


def test_exit_is_no_success(worker: Worker) -> None:
    run = worker.start(b"", do="exit")
    assert worker.process.wait(10) == 0
    # The report holds a duplicate of the connection, as the supervisor does.
    for descriptor in receive(worker.channel).descriptors:
        os.close(descriptor)
    assert run.finish().types == ["started", "metadata"]


# --- what is left behind ------------------------


@pytest.mark.parametrize(
    ("what", "recycle"),
    [("leave a thread", True), ("leave a child", True), ("leave a daemon thread", False)],
)
def test_a_leftover_of_the_run_recycles_the_process(
    worker: Worker, what: str, recycle: bool
) -> None:
    assert worker.run(b"", what).is_ok()
    assert worker.reports()[1] == {"type": "end", "recycle": recycle, "failed": False}
    if recycle:
        assert worker.process.wait(10) == 0


def test_a_child_that_has_ended_leaves_nothing(worker: Worker) -> None:
    outcome = worker.run(b"", "run a child", log_limit=1000)
    assert outcome.log == b"printed by a child\nthen by us\n"
    assert worker.reports()[1]["recycle"] is False


def test_a_worker_is_replaced_after_its_runs(java_dir: Path, probe_jar: Path) -> None:
    with Worker(java_dir, [probe_jar], "probe.Probe", runs=2) as worker:
        assert worker.run(b"").is_ok()
        assert worker.reports()[1]["recycle"] is False
        assert worker.run(b"").is_ok()
        assert worker.reports()[1]["recycle"] is True
        assert worker.process.wait(10) == 0


def test_only_the_descriptors_of_the_run_are_open(worker: Worker) -> None:
    lines = worker.run(b"", "descriptors", log_limit=1000).output.decode().splitlines()
    names = [line.split(" ", 1)[1] for line in lines]
    # listening, channel, connection, input, output
    assert sum(name.startswith("socket:") for name in names) == 5
    assert (
        sum(name.startswith("/memfd:log") for name in names) == 3
    )  # the log itself, and as 1 and 2
    rest = [
        n
        for n in names
        if not n.startswith(
            ("socket:", "pipe:", "/memfd:log", "anon_inode:[eventpoll]", "(", "/dev/null")
        )
    ]
    assert [n for n in rest if not n.endswith((".jar", "/modules"))] == []
    without_log = worker.run(b"", "descriptors").output.decode().splitlines()
    assert {"1 /dev/null", "2 /dev/null"} <= set(without_log)


# --- the log ------------------------


def test_logged_and_printed_lines_are_in_the_log(worker: Worker) -> None:
    assert worker.run(b"", "log", log_limit=1000).log.decode() == "Zürich\nprinted\nnot ended"
    assert worker.run(b"", "log").is_ok()


def test_changes_of_a_run_to_the_standard_streams_are_restored(worker: Worker) -> None:
    assert worker.run(b"", "close the standard streams", log_limit=1000).log == b"last words"
    assert worker.run(b"", "log", log_limit=1000).log.decode() == "Zürich\nprinted\nnot ended"


@pytest.mark.parametrize("limit", [1, 40, 1000])
def test_a_log_ends_at_its_limit_with_a_note(worker: Worker, limit: int) -> None:
    outcome = worker.run(b"", "flood", log_limit=limit)
    assert outcome.is_ok()
    last = b"log truncated at %d bytes\n" % limit
    assert len(outcome.log) <= limit
    assert outcome.log.endswith(last[:limit])
    assert outcome.log.decode(errors="strict") is not None


# --- loading ------------------------


@pytest.mark.parametrize(
    ("main", "text"),
    [
        ("probe.Nosuch", "there is no class probe.Nosuch"),
        ("probe.Absent", "there is no class"),
        ("java.lang.String", "does not implement"),
        ("probe.NeedsArgument", "no constructor without arguments"),
        ("probe.Stillborn", "java.lang.IllegalArgumentException: not today"),
        ("probe.BadStatic", 'For input string: "twelve"'),
    ],
)
def test_a_load_failure_answers_every_invocation(
    java_dir: Path, probe_jar: Path, main: str, text: str
) -> None:
    with Worker(java_dir, [probe_jar], main) as worker:
        assert worker.first is not None
        assert worker.first["type"] == "load_failed"
        assert text in worker.first["message"]
        assert "jdk.internal" not in worker.first["traceback"]
        for _ in range(2):
            outcome = worker.run(b"data", log_limit=1000)
            assert outcome.types == ["done"]
            assert (
                outcome.done.items()
                >= (failed("storlet.load") | {"message": worker.first["message"]}).items()
            )
            assert outcome.log.startswith(f"{main} ERROR: ".encode())
        worker.channel.shutdown(socket.SHUT_RDWR)
        assert worker.process.wait(10) == 0


def test_a_file_that_is_no_jar_is_named(java_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "broken-1.0.jar").write_text("not a jar")
    with Worker(java_dir, [tmp_path / "broken-1.0.jar"], "a.B") as worker:
        assert worker.first is not None
        assert "broken-1.0.jar is not a jar" in worker.first["message"]


# --- messages that are not invocations ------------------------

GOOD = '"parameters":{"do":"identity"},"inputs":[{"fd":0}],"output":{"fd":1}'


@pytest.mark.parametrize(
    "text",
    [
        b"garbage",
        b"\xff\xfe",
        b"{}",
        b"[" * 60000,
        b'{"v":1,"type":"invoke","id":"a"',
        b'{"v":2,"type":"invoke","id":"a",%b}' % GOOD.encode(),
        b'{"v":1,"type":"begin","id":"a",%b}' % GOOD.encode(),
        b'{"v":1,"type":"invoke","id":"a","inputs":[{"fd":0}],"output":{"fd":0}}',
        b'{"v":1,"type":"invoke","id":"a","inputs":[{"fd":0}],"output":{"fd":7}}',
        b'{"v":1,"type":"invoke","id":"a","inputs":[{"fd":0,"start":3}],"output":{"fd":1}}',
        b" " * 65537,
    ],
    ids=lambda text: text[:40].decode("latin-1"),
)
def test_a_bad_message_is_answered_and_forgotten(worker: Worker, text: bytes) -> None:
    before = at_rest(worker)
    reading, writing = os.pipe()
    with worker.connect() as connection:
        send(connection, text, [reading, writing])
        os.close(writing)
        answer = receive(connection).fields
        assert answer is not None
        assert answer.items() >= failed("protocol").items()
        assert receive(connection).fields is None
    assert os.read(reading, 1) == b""  # the worker closed its end
    os.close(reading)
    assert worker.descriptors() == before
    assert worker.run(b"next").output == b"next"


def test_too_many_descriptors_are_all_closed(worker: Worker) -> None:
    before = at_rest(worker)
    reading, writing = os.pipe()
    with worker.connect() as connection:
        send(connection, b'{"v":1,"type":"invoke"}', [writing] * 40)
        answer = receive(connection).fields
        assert answer is not None
        assert answer["code"] == "protocol"
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert worker.descriptors() == before


def test_a_client_that_disconnects_without_a_message_has_no_effect(worker: Worker) -> None:
    worker.connect().close()
    assert worker.run(b"next").output == b"next"


def test_a_client_that_disconnects_before_the_start_keeps_the_process(worker: Worker) -> None:
    busy = worker.start([Part(b"x" * 300_000)], do="identity")  # waits for its reader
    run = worker.start(b"", do="runs")
    run.connection.close()
    assert busy.finish().is_ok()
    assert [worker.reports()[1]["recycle"] for _ in range(2)] == [False, False]
    assert worker.run(b"", "runs").output == b"2"


# --- the end ------------------------


def test_a_worker_without_a_supervisor_drains_its_backlog_and_exits(worker: Worker) -> None:
    busy = worker.start([Part(b"x" * 300_000)], do="identity")
    waiting = worker.start(b"second", do="identity")
    worker.channel.shutdown(socket.SHUT_WR)
    assert busy.finish().is_ok()
    assert waiting.finish().output == b"second"
    assert [worker.reports()[1]["recycle"] for _ in range(2)] == [False, False]
    assert worker.process.wait(10) == 0
