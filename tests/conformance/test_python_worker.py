"""Promises of the Python worker only, and tests that only Python code can make."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from storlet_daemon.protocol import messages
from storlet_daemon.supervisor import BATCH_SECONDS
from tests.conformance.conftest import CODE, ControlGroups, new_sandbox
from tests.conformance.daemon_harness import (
    Code,
    HostSandbox,
    InputPipe,
    Run,
    Storlet,
    count_descriptors,
    running,
    until,
)

BROKEN = "raise RuntimeError('broken')\n"
MENDED = "class Mended:\n    def __init__(self, logger): pass\n    def __call__(self, i, o, p): o[0].write(b'mended')\n"


PROBE = Code(CODE / "python", "probe.Probe", "probe.py")


@pytest.fixture
def language() -> str:
    return "python"


# time limits of seconds, each in a sandbox of its own, while the other tests run


def forged_end(sandbox: HostSandbox) -> None:
    probe = sandbox.load(PROBE, workers_max=2)
    with probe.start(do="forge", text='{"type":"end","recycle":true}') as run:
        run.event()
        assert probe.run(b"next").output == b"next"
        done = run.event()
    assert done.code == messages.FAILED
    assert "did not exit" in done.message


def load_that_failed(sandbox: HostSandbox) -> None:
    folder = sandbox.folder / "mended"
    folder.mkdir()
    file = folder / "mended.py"
    file.write_text(BROKEN)
    storlet = sandbox.load(Code(folder, "mended.Mended", "mended.py"))
    assert storlet.run().done.code == messages.LOAD
    file.write_text(MENDED)
    assert storlet.run().done.code == messages.LOAD
    until(lambda: not sandbox.descendants(), 8)
    assert storlet.run().output == b"mended"


def silent_connection(sandbox: HostSandbox) -> None:
    probe = sandbox.load(PROBE, workers_max=2)
    with probe.connect() as silent:
        started = time.monotonic()
        assert probe.run(b"others go on").output == b"others go on"
        assert silent.recv(100) == b""
        assert time.monotonic() - started < 15


def computes_after_its_end(sandbox: HostSandbox) -> None:
    single = sandbox.load(PROBE, workers_max=1)
    pid = int(single.run(do="pid").output)
    done = single.run(do="end_early", then="spin").done
    assert done.code == messages.FAILED
    assert "continued to compute" in (done.message or "")
    assert single.run(b"next").output == b"next"
    assert int(single.run(do="pid").output) != pid


WAITS: Final = (forged_end, load_that_failed, silent_connection, computes_after_its_end)
Waiting = dict[Callable[[HostSandbox], None], Future[None]]


@pytest.fixture(scope="module", autouse=True)
def waiting(request: pytest.FixtureRequest) -> Iterator[Waiting]:
    """:data:`WAITS`, begun before the first test of this module."""

    def check(what: Callable[[HostSandbox], None]) -> None:
        with new_sandbox("python", request) as sandbox:
            what(sandbox)
        shutil.rmtree(sandbox.folder)

    with ThreadPoolExecutor(len(WAITS)) as pool:
        yield {what: pool.submit(check, what) for what in WAITS}


def test_a_worker_has_only_the_descriptors_of_its_run_and_children_inherit_none(
    probe: Storlet,
) -> None:
    for log_limit in (0, 1000, 0):
        listing = json.loads(
            probe.run(
                InputPipe(b"a"), InputPipe(b"b"), do="descriptors", log_limit=log_limit
            ).output
        )
        target = "/memfd" if log_limit else "/dev/null"
        # listening, channel, epoll, connection, output, inputs, log; the run's are in any order
        expected = ["socket"] * 6 + ["anon_inode"] + ["/memfd"] * bool(log_limit)
        assert [number for number, _, _ in listing] == list(range(len(expected) + 3))
        assert [name for _, name, _ in listing][:3] == ["/dev/null", target, target]
        assert sorted(name for _, name, _ in listing[3:]) == sorted(expected)
        assert [is_closed for _, _, is_closed in listing] == [False] * 3 + [True] * len(expected)


def test_other_storlets_of_the_sandbox_do_not_share_descriptors(
    probe: Storlet, sandbox: HostSandbox
) -> None:
    alone = json.loads(probe.run(do="descriptors").output)
    with running(probe.start(do="spin")):
        sandbox.load(Code(CODE / "python", "sibling.Sibling", "sibling.py")).run()
        late = sandbox.load(Code(CODE / "python", "json.Json", "json.py"))
        late.run()
        pid = next(
            pid
            for pid in sandbox.descendants()
            if Path(f"/proc/{pid}/comm").read_text().strip() == "json.py"
        )
        # No connection, input or output while idle; it becomes idle shortly after its "done"
        # arrives.
        until(lambda: count_descriptors(pid) == len(alone) - 3, 1)


def test_changes_of_a_run_to_its_process_are_restored(single: Storlet) -> None:
    pid = single.run(do="pid").output
    before = json.loads(single.run(do="state").output)
    assert single.run(do="leave_changes").done.is_ok
    assert json.loads(single.run(do="state").output) == before
    assert single.run(do="pid").output == pid


def test_a_leftover_signal_handler_replaces_the_worker(single: Storlet) -> None:
    pid = single.run(do="pid").output
    assert single.run(do="leave_handler").done.is_ok
    assert single.run(do="pid").output != pid


def test_the_next_worker_is_started_in_advance(single: Storlet, sandbox: HostSandbox) -> None:
    pid = int(single.run(do="pid").output)
    assert single.run(do="leave_handler").done.is_ok
    until(lambda: sandbox.descendants() and pid not in sandbox.descendants())


def test_a_run_whose_clean_up_hangs_is_killed_after_the_disconnect(
    probe: Storlet, sandbox: HostSandbox
) -> None:
    result = probe.run(do="leave_hang")
    assert result.done.is_ok
    pid = int(result.output)
    assert probe.run(b"next").output == b"next"
    until(lambda: pid not in sandbox.descendants())


def test_a_leftover_default_timeout_does_not_affect_the_next_connection(probe: Storlet) -> None:
    assert probe.run(do="leave_timeout", seconds="0.05").done.is_ok
    connection = probe.connect()
    time.sleep(0.3)
    with Run(connection, [InputPipe(b"late")]) as run:
        run.send({}, 4096)
        assert run.finish().output == b"late"


def test_a_supervisor_does_not_wake_up_for_each_run(probe: Storlet, sandbox: HostSandbox) -> None:
    probe.run(b"first")
    before, began = _sleeps(sandbox.pid), time.monotonic()
    for _ in range(200):
        probe.run(b"x")
    # A sleep, and a check for leftovers; on a slow machine there may be more sleeps than runs.
    assert _sleeps(sandbox.pid) - before <= 20 + 3 * (time.monotonic() - began) / BATCH_SECONDS


def _sleeps(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(
        int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches:")
    )


def test_a_child_may_read_the_input_and_write_the_output_by_number(probe: Storlet) -> None:
    result = probe.run(InputPipe(b"shout"), do="child")
    assert result.output == b"SHOUT"
    assert result.types == ["started", "metadata", "done"]


def test_a_run_fails_if_a_child_still_holds_its_output(probe: Storlet) -> None:
    done = probe.run(do="leave_writer").done
    assert (done.is_ok, done.code) == (False, "storlet.failed")
    assert "still holds its output" in (done.message or "")
    assert probe.run(b"next").output == b"next"


def has_nothing_open(pid: int) -> bool:
    """Also True for a process that has just been reaped or is about to be."""
    try:
        return not any(Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_kept_duplicate_of_an_input_replaces_the_worker(probe: Storlet) -> None:
    pid = int(probe.run(b"data", do="keep_duplicate").output)
    until(lambda: has_nothing_open(pid), 6)
    assert int(probe.run(b"data", do="keep_duplicate").output) != pid


def test_levels_of_the_log_are_in_its_lines(probe: Storlet) -> None:
    assert probe.run(do="log", log_limit=1000).log.decode().splitlines() == [
        "probe.Probe DEBUG: one",
        "probe.Probe INFO: two",
        "probe.Probe WARN: three",
        "probe.Probe ERROR: four",
    ]


def test_a_refusal_has_its_traceback_in_the_log_only(probe: Storlet) -> None:
    result = probe.run(do="refuse", text="no such column", log_limit=10000)
    assert (result.done.message, result.done.traceback) == ("Refusal: no such column", "")
    assert "Traceback" in result.log.decode()
    text = "\n".join(["a long list of faults"] * 60)
    long = probe.run(do="refuse", text=text)
    assert long.done.traceback == f"Refusal: {text}"


def test_a_traceback_has_the_authors_frames_only(probe: Storlet) -> None:
    result = probe.run(do="raise", log_limit=10000)
    traceback = result.done.traceback or ""
    assert "probe.py" in traceback
    assert "raise ValueError" in traceback
    assert "storlet_daemon" not in traceback
    assert traceback in result.log.decode()


def test_a_module_can_import_siblings_run_tools_and_pickle(sandbox: HostSandbox) -> None:
    storlet = sandbox.load(Code(CODE / "python", "sibling.Sibling", "sibling.py"))
    result = storlet.run(InputPipe(b"", {"a": "b"}))
    assert result.output == b"hello from the helper and from the tool\n"
    assert result.metadata == {"a": "b", "count": "3"}
    assert result.done.is_ok


def test_a_storlet_may_have_the_name_of_a_python_module(sandbox: HostSandbox) -> None:
    storlet = sandbox.load(Code(CODE / "python", "json.Json", "json.py"))
    assert json.loads(storlet.run().output) == ["still", "there"]


def test_a_storlet_that_closes_the_workers_descriptors_affects_only_itself(probe: Storlet) -> None:
    with probe.start(do="ruin") as run:
        result = run.finish()
    assert result.done.code == messages.FAILED
    assert probe.run(b"next").output == b"next"


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"ready"}',
        '{"type":"begin","id":"x"}',
        '{"type":"load_failed","message":"x"}',
        "garbage",
        "[" * 9000,
    ],
)
def test_a_storlet_that_writes_to_the_supervisor_is_killed(probe: Storlet, text: str) -> None:
    result = probe.run(do="forge", text=text)
    assert result.done.code == messages.FAILED
    assert probe.run(b"next").output == b"next"


def test_the_error_for_a_missing_python_lists_the_installed_ones(sandbox: HostSandbox) -> None:
    of = Code(CODE / "python", "probe.Probe", "probe.py")
    done = sandbox.load(of, language_version="3.1").run().done
    assert done.code == messages.LOAD
    assert "python 3.1 is not in this sandbox; there are: " in (done.message or "")
    assert f"3.{sys.version_info.minor}" in (done.message or "")


@pytest.mark.parametrize("version", ["3", f"3.{sys.version_info.minor}", None])
def test_the_supervisors_own_python_by_any_name(sandbox: HostSandbox, version: str | None) -> None:
    storlet = sandbox.load(
        Code(CODE / "python", "probe.Probe", "probe.py"), language_version=version
    )
    assert storlet.run(b"x").output == b"x"


def test_another_python_is_started_with_the_same_worker(tmp_path: Path) -> None:
    """A link with another name represents another Python: the test checks that it is started, not
    forked."""
    (tmp_path / "python3.99").symlink_to(os.path.realpath(sys.executable))
    folder = tmp_path / "s"
    folder.mkdir()
    with HostSandbox(folder, ("--python-dir", str(tmp_path))) as sandbox:
        storlet = sandbox.load(
            Code(CODE / "python", "probe.Probe", "probe.py"), language_version="3.99", workers_max=1
        )
        assert storlet.run(b"x").output == b"x"
        pid = int(storlet.run(do="pid").output)
        assert b"python3.99" in Path(f"/proc/{pid}/cmdline").read_bytes()
        listing = json.loads(storlet.run(do="descriptors").output)
        assert [is_closed for _, _, is_closed in listing] == [False] * 3 + [True] * 6
        assert (
            json.loads(storlet.run(do="state").output)["sys_path"]
            == storlet.run(do="path").output.decode()
        )


def test_a_worker_that_repeatedly_dies_idle_counts_as_a_failed_load(
    sandbox: HostSandbox, tmp_path: Path
) -> None:
    (tmp_path / "bomb.py").write_text(
        "import threading, os\nthreading.Timer(0.05, lambda: os._exit(9)).start()\nclass Bomb:\n    def __init__(self, logger): pass\n"
        "    def __call__(self, i, o, p):\n        import time; time.sleep(30)\n"
    )
    storlet = sandbox.load(Code(tmp_path, "bomb.Bomb", "bomb.py"))
    # A worker that dies between accepting the connection and reporting it sends no end mark.
    ends = [end for _ in range(3) for end in storlet.run().events[-1:]]
    assert ends, "one of them was begun"
    assert {end.code for end in ends} <= {messages.FAILED, messages.LOAD}
    assert len(sandbox.descendants()) <= 1


def test_usage_counts_child_processes(probe: Storlet) -> None:
    done = probe.run(InputPipe(b"x"), do="child").done
    assert done.usage is not None
    assert 0 < done.usage.cpu_seconds < 5


def test_sigterm_of_a_storlet_to_its_own_group_reaches_only_itself(
    probe: Storlet, sandbox: HostSandbox
) -> None:
    with running(probe.start(do="kill", signal=str(int(signal.SIGTERM)))) as run:
        result = run.finish()
    assert "signal 15 (SIGTERM)" in (result.done.message or "")
    assert sandbox.process.poll() is None


# workers that send false reports


def test_a_worker_that_reports_a_false_invocation_is_killed(
    user_sandbox: HostSandbox,
) -> None:
    storlet = user_sandbox.load(Code(CODE / "python", "probe.Probe", "probe.py"), workers_max=1)
    pid = storlet.run(do="pid").output
    done = storlet.run(do="forge_begin").done
    assert done.code == messages.FAILED
    assert "does not exist" in (done.message or "")
    assert storlet.run(do="pid").output != pid


def test_a_worker_that_claims_an_invocation_twice_is_killed(single: Storlet) -> None:
    pid = single.run(do="pid").output
    done = single.run(do="end_early", then="begin").done
    assert done.code == messages.FAILED
    assert "does not exist" in (done.message or "")
    assert single.run(do="pid").output != pid


def test_a_child_killed_for_memory_is_reported_as_a_limit(
    control_groups: ControlGroups, sandbox: HostSandbox
) -> None:
    sandbox.place = control_groups.place
    limits = messages.Resources(memory_bytes=100 << 20)
    storlet = sandbox.load(Code(CODE / "python", "probe.Probe", "probe.py"), limits=limits)
    done = storlet.run(do="child_holds_memory", mib="200").done
    assert done.code == messages.LIMIT_MEMORY
    assert "CalledProcessError" in (done.message or "")


def test_a_forged_end_affects_only_the_storlets_own_worker(waiting: Waiting) -> None:
    """A false "done" ends the supervisor's watch, and affects only the storlet's own worker."""
    waiting[forged_end].result()


def test_a_load_that_failed_is_tried_again_after_five_seconds(waiting: Waiting) -> None:
    waiting[load_that_failed].result()


def test_a_silent_connection_is_closed(waiting: Waiting) -> None:
    waiting[silent_connection].result()


def test_a_worker_that_computes_after_it_has_reported_its_end_is_killed(waiting: Waiting) -> None:
    waiting[computes_after_its_end].result()
