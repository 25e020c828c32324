"""Promises of the native worker only: both of its forms."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol import framing, messages
from tests.conformance.conftest import new_sandbox, public_folder
from tests.conformance.daemon_harness import (
    REPOSITORY,
    Code,
    HostSandbox,
    InputFile,
    InputPipe,
    InputReads,
    Run,
    Storlet,
    count_descriptors,
    running,
    until,
)
from tests.conformance.test_transcripts import cases, check, play
from tests.conformance.test_workers import is_alive, pid_of
from tests.support.native import asker

#: Transcripts whose subject differs for a program: it has an exit status and no exceptions, and a
#: wrong use of metadata is found at its end, if at all.
OTHERWISE = (
    "the process ends",
    "the language's own way to exit",
    "no memory",
    "metadata set twice",
    "metadata after data",
    "an exception",
    "a storlet may close its streams",
    "what is printed",
    "further outputs have data and metadata",
    "the metadata of a further output",
)


@pytest.fixture
def language() -> str:
    return "native"


# --- a program ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program(request: pytest.FixtureRequest) -> Iterator[Storlet]:
    """The probe as a program."""
    folder = request.getfixturevalue("native_code")
    with new_sandbox("native", request) as sandbox:
        yield sandbox.load(Code(folder, "program", "program", "native"), workers_max=2)
    shutil.rmtree(sandbox.folder)


@pytest.mark.parametrize(
    "case",
    [each for each in cases("runs") + cases("failures") if not each.id.startswith(OTHERWISE)],
)
def test_a_run_of_a_program_matches_its_transcript(program: Storlet, case: dict[str, Any]) -> None:
    check(play(program, case), case)
    assert program.run(b"after").output == b"after"


def test_a_program_writes_further_outputs_without_metadata(program: Storlet) -> None:
    result = program.run(b"in", b" more", do="outputs", further=2)
    assert result.done.is_ok, result.done
    assert result.outputs == [b"0:in0:in", b"1:in1:in", b"2:in2:in"]
    assert [result.metadata_of(number) for number in range(3)] == [{"number": "0"}, {}, {}]


def test_a_program_with_further_outputs_must_leave_no_process(program: Storlet) -> None:
    """It could still write to a further output, and those bytes would be missing."""
    result = program.run(do="leave_orphan", further=1)
    assert result.done.code == messages.FAILED
    assert "still holds its output" in (result.done.message or "")


def test_a_program_that_fails_is_an_error_with_the_end_of_its_log(program: Storlet) -> None:
    result = program.run(do="raise", text="one\ntwo", log_limit=1000)
    assert result.done.code == messages.FAILED
    assert result.done.message == "the program exited with status 1: two"
    assert (result.done.traceback or "").startswith("one\ntwo\n")
    assert result.log.startswith(b"one\ntwo\n")
    assert result.output == b""


def test_an_exit_status_of_0_after_half_of_the_output_is_success(program: Storlet) -> None:
    result = program.run(do="sys_exit", code="0")
    assert result.done.is_ok
    assert result.output == b"half"


def test_a_program_whose_child_holds_the_output_has_failed(program: Storlet) -> None:
    result = program.run(do="leave_process")
    assert result.done.code == messages.FAILED
    assert "still holds its output" in (result.done.message or "")
    until(lambda: not is_alive(int(result.output)), 2)


def _script(sandbox: HostSandbox, native_code: Path, text: str) -> Storlet:
    _executable(native_code / "script.sh", f"#!/bin/sh\n{text}\n")
    return sandbox.load(Code(native_code, "script.sh", "script.sh", "native"))


def test_a_program_may_leave_a_process_that_does_not_hold_the_output(
    sandbox: HostSandbox, native_code: Path
) -> None:
    text = "sleep 300 < /dev/null > /dev/null 2>&1 & echo $!"
    result = _script(sandbox, native_code, text).run(b"in")
    assert result.done.is_ok, result.done
    until(lambda: not is_alive(int(result.output)), 2)


def test_the_bytes_of_a_process_that_ends_after_the_program_are_not_missing(
    sandbox: HostSandbox, native_code: Path
) -> None:
    """It may end in time, or be too slow: then the run fails."""
    text = 'echo early; (sleep "$STORLET_PARAM_seconds"; echo late) &'
    storlet = _script(sandbox, native_code, text)
    codes = set()
    for seconds in ("0", "0.5", "0.9", "0.95", "1", "5"):
        result = storlet.run(b"in", seconds=seconds)
        assert result.output == b"early\nlate\n" or not result.done.is_ok, seconds
        codes.add(result.done.code)
    assert messages.FAILED in codes


def test_the_output_of_a_program_is_the_stream_of_the_filter(
    sandbox: HostSandbox, native_code: Path
) -> None:
    storlet = _script(sandbox, native_code, "[ -S /dev/fd/1 ] && cat /dev/fd/0")
    assert storlet.run(InputFile(b"in")).output == b"in"


def test_metadata_comes_while_the_first_bytes_wait(sandbox: HostSandbox, native_code: Path) -> None:
    text = """echo '{"a":"1"}' > /dev/fd/$STORLET_METADATA_FD; echo x; sleep 300"""
    with running(_script(sandbox, native_code, text).start(b"in")) as run:
        assert run.event() == messages.Metadata({"a": "1"}, 0)


def test_metadata_that_fills_its_pipe_does_not_stop_the_program(program: Storlet) -> None:
    result = program.run(do="metadata_large", size="70000")
    assert result.done.code == messages.LIMIT_METADATA
    assert result.output == b""


def test_a_program_that_is_cancelled_is_killed(program: Storlet) -> None:
    with running(program.start(do="spin")) as run:
        run.event()
        pids = [pid for pid in program.sandbox.descendants() if _name(pid) == "program"]
        assert pids
    until(lambda: not any(map(is_alive, pids)), 2)


def test_large_inputs_pass_through_ranges_and_pipes(program: Storlet) -> None:
    data = os.urandom(1 << 20) * 2
    result = program.run(
        InputFile(data, start=1, end=len(data) - 2), InputPipe(data), InputFile(data, start=5)
    )
    assert result.done.is_ok
    assert result.output == data[1:-1] + data + data[5:]


def test_a_program_that_reads_nothing_of_a_range_succeeds(program: Storlet) -> None:
    data = bytes(1 << 20)
    for _ in range(3):
        result = program.run(InputFile(data, start=1, end=len(data) - 2), do="write", text="x")
        assert (result.output, result.done.is_ok) == (b"x", True)


def test_programs_leave_no_descriptor_and_no_process(program: Storlet) -> None:
    program.run()
    workers = program.sandbox.descendants()
    counts = {pid: count_descriptors(pid) for pid in workers}
    for _ in range(50):
        assert program.run(InputFile(b"abc", start=1, end=1), log_limit=100).output == b"b"
    until(lambda: not any(_name(pid) == "program" for pid in program.sandbox.descendants()))
    # The first count may include the connection of the run before, which is about to be closed.
    until(lambda: all(count_descriptors(pid) <= counts[pid] for pid in workers))


def test_a_program_that_cannot_be_started_is_an_error_of_its_run(
    sandbox: HostSandbox, native_code: Path
) -> None:
    script = native_code / "gone.sh"
    script.write_text("#!/bin/sh\ncat\n")
    script.chmod(0o755)
    storlet = sandbox.load(Code(native_code, "gone.sh", "gone.sh", "native"))
    assert storlet.run(b"in").output == b"in"
    (sandbox.code_root / storlet.code.version / "gone.sh").unlink()
    done = storlet.run(b"in").done
    reason = "the program cannot be started: No such file or directory"
    assert (done.code, done.message) == (messages.FAILED, reason)
    # The next worker finds it when it loads.
    done = storlet.run(b"in").done
    assert done.code == messages.LOAD
    assert "gone.sh is missing" in (done.message or "")


_MARKING = """#!/bin/sh
: > "$STORLET_PARAM_mark"
exec cat
"""

#: Executes a worker to which the kernel refuses ``pidfd_open``.
_WITHOUT_PIDFD_OPEN = """#!{python}
import ctypes, os, struct, sys
sys.path.insert(0, {repository!r})
from storlet_daemon import kernel
rows = ((0x20, 0, 0, 0), (0x15, 0, 1, 434), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
kernel.filter_calls(struct.pack("@HP", len(rows), ctypes.addressof(code)))
os.execv({worker!r}, [{worker!r}, *sys.argv[1:]])
"""


def _executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_a_program_runs_without_a_second_call_for_the_descriptor_of_its_exit(
    native_dir: Path, native_code: Path, tmp_path: Path
) -> None:
    """That call may fail, and the program would run although its run has failed."""
    worker = str(native_dir / "storlet-worker")
    text = _WITHOUT_PIDFD_OPEN.format(
        python=sys.executable, repository=str(REPOSITORY), worker=worker
    )
    _executable(native_code / "marking.sh", _MARKING)
    with public_folder("st-") as folder:
        refused = _executable(folder / "worker", text)
        with HostSandbox(folder, ("--native-worker", refused)) as sandbox:
            storlet = sandbox.load(Code(native_code, "marking.sh", "marking.sh", "native"))
            result = storlet.run(b"in", mark=str(tmp_path / "mark"))
    assert result.done.is_ok, result.done
    assert result.output == b"in"


def test_no_program_runs_if_its_run_fails_for_lack_of_a_descriptor(
    sandbox: HostSandbox, native_code: Path, tmp_path: Path
) -> None:
    """Each descriptor of the run is missing once, also the one that shows the program's exit."""
    _executable(native_code / "marking.sh", _MARKING)
    code = Code(native_code, "marking.sh", "marking.sh", "native")
    storlet = sandbox.load(code, workers_max=1)
    reasons = []
    for limit in range(6, 24):
        assert storlet.run(b"in", mark=str(tmp_path / "before")).output == b"in"
        [pid] = until(lambda: found if len(found := sandbox.descendants()) == 1 else None)
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limits[1]))
        mark = tmp_path / str(limit)
        done = storlet.run(b"in", mark=str(mark)).done
        assert mark.exists() == done.is_ok
        reasons.append(done.message)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    assert "the program cannot be started: Too many open files" in reasons
    assert reasons[-1] is None


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    except OSError:
        return ""


def test_a_program_has_no_services(program: Storlet) -> None:
    with Run(program.connect(), [InputPipe(b"")]) as run:
        store = run.serve("read")
        run.send({})
        done = run.finish().done
        store.close()
    assert done.code == messages.LOAD
    assert "program is a program, which has no services" in (done.message or "")


@pytest.mark.parametrize("given", [InputFile(b"abc", seekable="file"), InputReads(b"abc")])
def test_a_program_has_no_seekable_inputs(program: Storlet, given: InputPipe) -> None:
    done = program.run(given).done
    assert done.code == messages.LOAD
    assert "program is a program, which has no seekable inputs" in (done.message or "")


# --- a shared object ------------------------------------------------------------------------------


@pytest.mark.parametrize("do", ["leave_handler", "keep_duplicate"])
def test_a_worker_with_something_left_behind_is_replaced(single: Storlet, do: str) -> None:
    pid = pid_of(single)
    assert single.run(InputFile(b"a"), do=do).done.is_ok
    until(lambda: not is_alive(pid), 6)
    assert single.run(b"next").output == b"next"


def test_changes_of_the_process_are_undone(single: Storlet) -> None:
    pid = pid_of(single)
    before = single.run(do="state").output
    assert before.endswith(b" 22 gone kept")
    assert single.run(do="leave_changes").done.is_ok
    assert single.run(do="state").output == before
    assert pid_of(single) == pid


def test_a_child_process_reads_and_writes_the_descriptors(single: Storlet) -> None:
    result = single.run(b"text", do="child")
    assert (result.output, result.metadata) == (b"TEXT", {})


DATA = bytes(range(256)) * 10_000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (InputPipe(DATA), DATA),
        (InputFile(DATA), DATA),
        (InputFile(DATA, start=5), DATA[5:]),
        (InputFile(DATA, start=5, end=len(DATA) - 5), DATA[5:-4]),
        (InputFile(DATA, seekable="file"), DATA),
        (InputReads(DATA), DATA),
        (InputFile(b"ab"), b"ab"),
    ],
    ids=["stream", "file", "start", "range", "seekable file", "reads", "short"],
)
def test_an_input_is_copied_whole_and_not_beyond_its_end(
    single: Storlet, given: InputPipe, expected: bytes
) -> None:
    result = single.run(given, do="copy")
    assert result.done.is_ok, result.done
    first = min(3, len(expected))
    assert result.output == expected + f" -1 {first} {len(expected) - first} 0".encode()


def test_a_copy_that_breaks_off_fails_the_run_although_the_storlet_succeeds(
    single: Storlet,
) -> None:
    done = single.run(InputReads(DATA, most=1), do="copy").done
    assert (done.code, done.message) == (messages.FAILED, "reading the input: Input/output error")


@pytest.mark.parametrize(("start", "end"), [(0, 0), (1, 2), (1, 3), (0, 99)])
def test_a_range_has_no_byte_more_for_reads_of_one_byte(
    single: Storlet, start: int, end: int
) -> None:
    data = bytes(range(65, 65 + 26))
    result = single.run(InputFile(data, start=start, end=end), do="bytes")
    assert result.done.is_ok, result.done
    assert result.output == data[start : end + 1]


def test_the_last_possible_end_of_a_range_is_no_overflow(single: Storlet, program: Storlet) -> None:
    for storlet, do in ((single, "bytes"), (program, "echo")):
        result = storlet.run(InputFile(b"abc", start=0, end=(1 << 63) - 1), do=do)
        assert (result.output, result.done.is_ok) == (b"abc", True)


def test_a_process_that_may_still_write_the_output_is_a_failure(single: Storlet) -> None:
    """Its bytes would be missing from a result that looks complete."""
    result = single.run(do="leave_writer")
    assert result.done.code == messages.FAILED
    assert "left a process that may hold the output" in (result.done.message or "")


@pytest.mark.parametrize("text", ["garbage", '{"type":"ready"}', '{"type":"begin","id":"x"}'])
def test_a_worker_that_answers_the_protocol_wrongly_is_killed(single: Storlet, text: str) -> None:
    began = time.monotonic()
    result = single.run(do="forge", text=text)
    assert not result.done.is_ok
    assert time.monotonic() - began < 20
    assert single.run(b"next").output == b"next"


def test_another_version_of_the_interface_is_refused(
    sandbox: HostSandbox, native_code: Path
) -> None:
    storlet = sandbox.load(Code(native_code, "loadolder.so:loadolder", "loadolder.so", "native"))
    done = storlet.run().done
    assert done.code == messages.LOAD
    expected = "loadolder.so is built for version 7 of storlet.h; this sandbox has version 1"
    assert done.message == expected


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        ("program:probe", "is a program and not a shared object"),
        ("probe.so", "is a shared object: name its function"),
        ("probe.so:absent", "probe.so has no function absent"),
        ("absent.so:probe", "absent.so is missing"),
        ("notes.txt", "is not a program"),
        ("notes.txt:probe", "is not a shared object"),
    ],
)
def test_code_of_the_other_form_is_refused_by_name(
    sandbox: HostSandbox, native_code: Path, main: str, expected: str
) -> None:
    notes = native_code / "notes.txt"
    notes.write_text("not a program\n")
    notes.chmod(0o755)
    done = sandbox.load(Code(native_code, main, main.partition(":")[0], "native")).run().done
    assert done.code == messages.LOAD
    assert expected in (done.message or "")


@pytest.mark.parametrize(
    "first", [b"#!/bin/sh\r\n", b"#!/usr/bin/env sh\r\n", b"#! /bin/sh -e\r\n"]
)
def test_a_script_with_line_ends_of_windows_says_so(
    sandbox: HostSandbox, native_code: Path, first: bytes
) -> None:
    """The kernel and env would only find no program whose name ends with a carriage return."""
    script = native_code / "windows.sh"
    script.write_bytes(first + b"cat\r\n")
    script.chmod(0o755)
    done = sandbox.load(Code(native_code, "windows.sh", "windows.sh", "native")).run().done
    assert done.code == messages.LOAD
    assert "save it with Unix line ends" in (done.message or "")


def test_an_idle_worker_has_at_most_two_mebibytes_of_its_own(single: Storlet) -> None:
    pid = pid_of(single)
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("utf-8")
    own = sum(
        int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_Dirty:")
    )
    assert 0 < own <= 2048


# --- seekable inputs ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [InputFile, InputReads])
def test_a_read_at_an_offset_is_whole_and_moves_nothing(
    single: Storlet, kind: type[InputPipe]
) -> None:
    data = bytes(range(65, 91)) * 100_000
    given = kind(data, seekable="file" if kind is InputFile else "reads")
    result = single.run(given, do="read_at")
    assert result.done.is_ok, result.done
    assert result.output == b"AB CD -1 1 0 " + data[1:]


def test_a_child_process_takes_no_answer_of_the_filter(single: Storlet) -> None:
    assert single.run(InputReads(b"abc"), do="child_reads").output == b"refused b"


@pytest.mark.parametrize("given", [InputPipe(b"abcd"), InputFile(b"abcd", start=0, end=2)])
def test_another_input_cannot_seek(single: Storlet, given: InputPipe) -> None:
    has_descriptor = type(given) is InputPipe
    expected = f"ESPIPE ESPIPE ESPIPE {has_descriptor:d}".encode()
    assert single.run(given, do="read_at").output == expected


def test_an_input_that_broke_off_fails_the_run_although_the_storlet_succeeds(
    single: Storlet,
) -> None:
    result = single.run(InputReads(b"abcd", most=0), do="lines")
    assert result.done.code == messages.FAILED
    assert result.done.message == "reading the input: Input/output error"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"seekable": "often"}, "seekable is none of file, reads"),
        ({"size": None}, "seekable needs a size"),
        ({"end": 1}, "seekable has a range"),
    ],
)
def test_a_seekable_input_that_is_not_valid_is_refused(
    single: Storlet, changes: dict[str, Any], fault: str
) -> None:
    class Wrong(InputReads):
        @property
        def described(self) -> dict[str, Any]:
            return {**super().described, **changes}

    done = single.run(Wrong(b"abc")).done
    assert (done.code, done.message) == (messages.PROTOCOL, fault)


# --- services -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asking(request: pytest.FixtureRequest) -> Iterator[Storlet]:
    """A storlet that uses the store as its parameter says."""
    with new_sandbox("native", request) as sandbox:
        (sandbox.folder / "asker.so").write_bytes(asker())
        code = Code(sandbox.folder, "asker.so:asker", "asker.so", "native")
        yield sandbox.load(code, workers_max=1)
    shutil.rmtree(sandbox.folder)


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ({"type": "described", "id": 7}, "a reply to no request"),
        ({"type": "ended", "id": 2, "bytes": 0}, "a reply to no request"),
        ({"type": "performed", "id": 1}, "a reply to another kind of request"),
        ({"type": "ended", "id": 1, "bytes": 0}, "two replies to one request"),
    ],
)
def test_a_reply_to_another_request_fails_the_run(
    asking: Storlet, reply: dict[str, Any], fault: str
) -> None:
    with Run(asking.connect(), [InputPipe(b"")]) as run:
        store = run.serve("read")
        run.send({"ask": '[["stat", "/c/o"]]'})
        assert framing.receive(store) is not None
        framing.send_bytes(store, framing.encode_fields(reply))
        done = run.finish().done
        store.close()
    assert (done.code, done.message) == (
        messages.FAILED,
        f"the store's reply is not valid: {fault}",
    )


def test_nothing_of_the_services_stays_after_a_run(asking: Storlet) -> None:
    """Files that the storlet left open, and streams whose end it did not read."""
    hold(asking, 1)
    [pid] = asking.sandbox.descendants()
    before = count_descriptors(pid)
    for count in (5, 0, 3):
        hold(asking, count)
    # The first count may include the connection of the run before, which is about to be closed.
    until(lambda: count_descriptors(pid) <= before)
    assert asking.sandbox.descendants() == [pid]


def hold(storlet: Storlet, count: int) -> None:
    with Run(storlet.connect(), [InputPipe(b"")]) as run:
        store = run.serve("read")
        run.send({"ask": json.dumps([["hold", "/c/o", count]])})
        for _ in range(count):
            request = framing.receive(store)
            assert request is not None
            reply = {"type": "opened", "id": request.fields["id"], "facts": {"size": 5}}
            ours, theirs = socket.socketpair()
            framing.send_bytes(store, framing.encode_fields(reply), [theirs.fileno()])
            ours.close()
            theirs.close()
        result = run.finish()
        store.close()
    assert json.loads(result.output) == [["ok", count]], result.done


@pytest.mark.parametrize(
    ("ask", "reply"),
    [
        (["store_on", "up.py", "x", "/c/o"], {"type": "described", "facts": {}}),
        (["stat", "/c/o"], {"type": "feeding"}),
    ],
    ids=["facts before the stream for the data", "a stream for the data of no call"],
)
def test_data_is_given_to_calls_on_data_only(
    asking: Storlet, ask: list[Any], reply: dict[str, Any]
) -> None:
    with Run(asking.connect(), [InputPipe(b"")]) as run:
        store = run.serve("read", "call")
        run.send({"ask": json.dumps([ask])})
        assert framing.receive(store) is not None
        ours, theirs = socket.socketpair()
        fds = [theirs.fileno()] if reply["type"] == "feeding" else []
        framing.send_bytes(store, framing.encode_fields({**reply, "id": 1}), fds)
        done = run.finish().done
        for each in (ours, theirs, store):
            each.close()
    fault = "the store's reply is not valid: a reply to another kind of request"
    assert (done.code, done.message) == (messages.FAILED, fault)


def endless(storlet: Storlet, how: str) -> None:
    """A call on data without an end, whose result has begun."""
    with Run(storlet.connect(), [InputPipe(b"")]) as run:
        store = run.serve("call")
        run.send({"ask": json.dumps([["endless", "up.py", how]])})
        assert framing.receive(store) is not None
        (feeding, feeds), (reading, writes) = socket.socketpair(), socket.socketpair()
        replies = (({"type": "feeding"}, feeds), ({"type": "opened", "facts": {}}, reading))
        for reply, theirs in replies:
            framing.send_bytes(store, framing.encode_fields({**reply, "id": 1}), [theirs.fileno()])
            theirs.close()
        assert feeding.recv(5, socket.MSG_WAITALL) == b"\0\0\0\1x"
        writes.sendall(b"r")
        result = run.finish()
        for each in (feeding, writes, store):
            each.close()
    assert json.loads(result.output) == [["ok", "r"]], result.done


def test_the_data_of_a_call_ends_with_its_result_or_its_run(asking: Storlet) -> None:
    hold(asking, 1)
    [pid] = asking.sandbox.descendants()
    before = count_descriptors(pid)
    for how in ("close", "leave"):
        endless(asking, how)
        hold(asking, 1)
    until(lambda: count_descriptors(pid) <= before)
    assert asking.sandbox.descendants() == [pid]


def test_the_function_that_gives_the_data_may_close_the_result(asking: Storlet) -> None:
    endless(asking, "close inside")
    hold(asking, 1)


def test_a_worker_with_a_function_that_does_not_return_is_replaced(asking: Storlet) -> None:
    hold(asking, 1)
    [pid] = asking.sandbox.descendants()
    endless(asking, "hang")
    until(lambda: not is_alive(pid), 6)
    hold(asking, 1)
