"""Back-off, wording of logs, keys, threads, the check of peers."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from storlet_middleware import keys
from storlet_middleware.sandboxd import backoff, control, wording
from storlet_middleware.sandboxd.identity import Identity
from storlet_middleware.sandboxd.threads import Threads


def test_the_first_restarts_are_immediate_then_the_delay_doubles_to_a_bound() -> None:
    state, waits = backoff.Backoff(), []
    for _ in range(backoff.FREE + 9):
        state.ended(100.0, 0.1, "why")
        waits.append(state.wait_seconds(100.0))
    assert waits[: backoff.FREE + 3] == [0.0] * backoff.FREE + [1.0, 2.0, 4.0]
    assert waits[-1] == backoff.LONGEST_SECONDS


def test_a_long_lived_sandbox_resets_the_back_off() -> None:
    state = backoff.Backoff()
    for _ in range(backoff.FREE + 3):
        state.ended(100.0, 0.1, "why")
    state.ended(200.0, backoff.STEADY_SECONDS, "why")
    assert (state.ends, state.wait_seconds(200.0)) == (1, 0.0)
    assert state.is_over(200.0 + 3 * backoff.LONGEST_SECONDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AUTH_a", "AUTH_a"),
        ("two words", '"two words"'),
        ("", '""'),
        ("a\r\nERROR forged", '"a\\r\\nERROR forged"'),
        ("\x1b[2J", "\\x1b[2J"),
        ("ü", "\\xfc"),
        ('a "b" c', "\"a 'b' c\""),
        ("a\\nb", "a\\\\nb"),
        ("x" * 300, "x" * 200 + "..."),
    ],
)
def test_foreign_text_stays_one_value_of_one_line(text: str, expected: str) -> None:
    assert wording.shown(text) == expected


def test_keys_depend_on_the_whole_account_name_class_and_image() -> None:
    names = ["A" * 60 + "1", "A" * 60 + "2"]
    assert len({keys.tenant_key(name) for name in names}) == 2
    parts = [("a", "user", "i"), ("a", "admin", "i"), ("a", "user", "j"), ("b", "user", "i")]
    assert len({keys.sandbox_key(*part) for part in parts}) == 4
    assert len(keys.sandbox_key("a", "user", "i")) == 16
    assert len(keys.tenant_key("a")) == 32


def test_a_blocking_call_gives_its_result_or_its_error() -> None:
    async def main() -> None:
        threads = Threads()
        assert await threads.call(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await threads.call(divmod, 1, 0)

    asyncio.run(main())


def test_an_abandoned_blocking_call_keeps_its_thread_until_it_ends() -> None:
    release = threading.Event()

    async def main() -> None:
        threads = Threads(calls_max=1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await threads.call(release.wait)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await threads.call(lambda: "too early")
        release.set()
        assert await threads.call(lambda: "now") == "now"

    asyncio.run(main())


def test_the_loop_runs_while_a_call_blocks() -> None:
    async def main() -> float:
        began = time.monotonic()
        await asyncio.gather(*(Threads().call(time.sleep, 1) for _ in range(5)))
        return time.monotonic() - began

    assert asyncio.run(main()) < 3


def test_the_peer_of_a_socket_is_known_from_the_kernel() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert control.peer_of(ours) == control.Peer(os.getpid(), os.getuid(), os.getgid())


def test_another_uid_or_gid_is_a_stranger() -> None:
    identity = Identity("AUTH_a", "user", 200000)
    assert "uid:gid 0:0" in control.peer_fault(control.Peer(1, 0, 0), identity)
    assert "uid:gid" in control.peer_fault(control.Peer(1, 200000, 0), identity)


def test_a_process_that_is_not_process_1_of_a_sandbox_is_a_stranger() -> None:
    identity = Identity("AUTH_a", "user", 200000)
    assert "not process 1" in control.peer_fault(
        control.Peer(os.getpid(), 200000, 200000), identity
    )
    assert "not process 1" in control.peer_fault(control.Peer(1, 200000, 200000), identity), (
        "the host's init is none"
    )
    assert "gone" in control.peer_fault(control.Peer(2**22 + 1, 200000, 200000), identity)


def test_a_pid_out_of_sight_is_accepted_by_its_uid() -> None:
    assert (
        control.peer_fault(control.Peer(0, 200000, 200000), Identity("AUTH_a", "user", 200000))
        == ""
    )


@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("unshare") is None, reason="makes a pid namespace, as root"
)
def test_process_1_of_a_pid_namespace_is_accepted() -> None:
    command = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "echo; read line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(
            encoding="ascii"
        )
        child = int(children.split()[0])
        assert (
            control.peer_fault(
                control.Peer(child, 200000, 200000), Identity("AUTH_a", "user", 200000)
            )
            == ""
        )
        process.stdin.close()
