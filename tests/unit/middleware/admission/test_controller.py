"""Slots of a node: of one process, and of several real ones that share a table."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import eventlet
import pytest

from storlet_middleware.admission import shared_table
from storlet_middleware.admission.controller import Admission
from storlet_middleware.concurrency import spawn
from storlet_middleware.errors import NodeBusy, TenantBusy
from tests.support.forks import FORKS
from tests.unit.middleware.admission import admission_process
from tests.unit.middleware.admission.slots import MIB, new, take, take_together, usage
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import make_config, wait_until

# --- one process ----------------------------------------------------------------------------------


def test_a_slot_is_given_back_once(run_dir: Path) -> None:
    one = new(run_dir)
    slots = [take(one), take(one, "b")]
    assert usage(run_dir) == {"a": (1, 0), "b": (1, 0)}
    for slot in slots * 2:
        slot.release()
    assert usage(run_dir) == {}


def test_a_tenant_alone_gets_half_and_the_next_waits_until_one_is_given_back(run_dir: Path) -> None:
    one = new(run_dir)
    slots = [take(one) for _ in range(4)]
    assert one.acquire_at_once(one.claim("a", "g", MIB)) is None
    waiting = spawn(take, one)
    eventlet.sleep(0.02)
    assert usage(run_dir) == {"a": (4, 1)}
    slots.pop().release()
    late = waiting.wait()
    assert usage(run_dir) == {"a": (4, 0)}
    assert late.waited_seconds > 0.01
    assert one._logger.stats == [
        *["storlet.admission.admitted"] * 4, "storlet.admission.queued", "storlet.admission.admitted",
        "storlet.admission.waited", "storlet.admission.queue.timing",
    ]  # fmt: skip


def test_a_process_keeps_room_for_requests_of_other_kinds(run_dir: Path) -> None:
    one = Admission(make_config(run_dir, admission__invocations="8"), Logger(), room=6)
    slots = [take(one) for _ in range(4)]
    waiting = [spawn(take, one), spawn(take, one)]
    eventlet.sleep(0.01)
    for account in ("a", "b"):
        assert one.acquire_at_once(one.claim(account, "g", MIB)) is None
        with pytest.raises(NodeBusy, match="too many invocations wait"):
            take(one, account)
    waiting.pop().kill()
    take(one, "b").release()
    slots.pop(0).release()
    slots.append(waiting.pop().wait())
    for slot in slots * 2:
        slot.release()
    slots = [take(one, account) for account in "aabb"]
    for slot in slots:
        slot.release()
    assert (usage(run_dir), one._counts.own.held) == ({}, 0)


def test_the_next_is_the_tenant_with_least_for_its_weight(run_dir: Path) -> None:
    one, order = new(run_dir, admission__invocations="16", admission__weights="b:2, c:3"), []
    slots = [take(one, "c") for _ in range(12)]
    take(one, "a")
    take(one, "b")

    def wait(account: str) -> None:
        take(one, account)
        order.append(account)

    waiting = [spawn(wait, name) for name in ("a", "b")]
    eventlet.sleep(0.01)
    assert not order, "the last eighth is for others"
    for _ in waiting:
        slots.pop().release()
        eventlet.sleep(0.01)
    assert order == ["b", "a"]


# --- several slots at a time ----------------------------------------------------------------------


def test_all_are_taken_or_none(run_dir: Path) -> None:
    one = new(run_dir)
    slots = take_together(one, 3)
    assert usage(run_dir) == {"a": (3, 0)}
    claims = [one.claim("a", f"g{index}", MIB) for index in range(2)]
    assert one.acquire_together_at_once(claims) is None
    assert (usage(run_dir), one._counts.own.held) == ({"a": (3, 0)}, 3)
    for slot in slots * 2:
        slot.release()
    assert (usage(run_dir), one._counts.own.by_key) == ({}, {})


def test_more_than_an_idle_node_gives_is_refused_at_once(run_dir: Path) -> None:
    one = new(run_dir)
    with pytest.raises(
        TenantBusy,
        match=r"share of this node's invocations, 4,.*for 5 storlets that run at the same time",
    ):
        take_together(one, 5)
    assert usage(run_dir) == {}


# --- several processes ----------------------------------------------------------------------------


class Process:
    """See ``admission_process``."""

    def __init__(self, conf: Path) -> None:
        self._pipe, theirs = FORKS.Pipe()
        self._child = FORKS.Process(target=admission_process.main, args=(conf, theirs))
        self._child.start()
        theirs.close()
        self._heard = b""
        assert self.hear() == "ready"

    def tell(self, *lines: str) -> None:
        os.write(self._pipe.fileno(), "".join(f"{line}\n" for line in lines).encode())

    def hear(self, seconds: float = 10) -> str:
        """The next line."""
        while b"\n" not in self._heard:
            with selectors.DefaultSelector() as selector:
                selector.register(self._pipe, selectors.EVENT_READ)
                assert selector.select(seconds), "it says nothing"
            chunk = os.read(self._pipe.fileno(), 65536)
            assert chunk, "it has ended"
            self._heard += chunk
        line, self._heard = self._heard.split(b"\n", 1)
        return line.decode()

    def ask(self, line: str) -> str:
        self.tell(line)
        return self.hear()

    def send_signal(self, signum: signal.Signals) -> None:
        os.kill(self._child.pid or 0, signum)

    def end(self) -> None:
        self._child.kill()
        self._child.join(10)
        self._pipe.close()


@pytest.fixture
def processes(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., list[Process]]]:
    made: list[Process] = []
    # On a busy machine a process is stopped for longer, and its slots would be counted twice.
    monkeypatch.setattr(shared_table, "_SNAPSHOT_SECONDS", 60)

    def start(count: int, **options: Any) -> list[Process]:
        conf = run_dir / "storlet.conf"
        section = "\n".join(
            f"{key} = {value}" for key, value in {"invocations": 8, **options}.items()
        )
        conf.write_text(
            f"[sandbox]\nrun_dir = {run_dir}\n[admission]\n{section}\n[invocation]\nqueue_seconds = 20\n"
        )
        made.extend(Process(conf) for _ in range(count))
        return made

    yield start
    for process in made:
        process.end()


def test_processes_count_together(run_dir: Path, processes: Callable[..., list[Process]]) -> None:
    one, two = processes(2)
    assert [one.ask("try a"), two.ask("try a"), one.ask("try a"), two.ask("try a")] == [
        "taken a"
    ] * 4
    assert [one.ask("try a"), two.ask("try a")] == ["full a"] * 2
    assert two.ask("try b") == "taken b"
    assert usage(run_dir) == {"a": (4, 0), "b": (1, 0)}
    assert one.ask("free a") == "freed a"
    assert usage(run_dir) == {"a": (3, 0), "b": (1, 0)}


def test_a_slot_goes_to_the_oldest_waiter_of_all_processes(
    run_dir: Path, processes: Callable[..., list[Process]]
) -> None:
    one, two, three = processes(3, invocations=1)
    # One that the machine does not let run for a quarter of a second would rightly be passed over.
    assert [process.ask("absent 60") for process in (one, two, three)] == ["absent"] * 3
    assert one.ask("try a") == "taken a"
    for number, process in enumerate((two, three, two), 1):
        process.tell("take b")
        assert wait_until(lambda number=number: usage(run_dir).get("b", (0, 0))[1] == number, 10)  # type: ignore[misc]
    assert usage(run_dir) == {"a": (1, 0), "b": (0, 3)}
    for giver, name, taker in ((one, "a", two), (two, "b", three), (three, "b", two)):
        assert giver.ask(f"free {name}") == f"freed {name}"
        assert taker.hear() == "taken b"
    two.ask("free b")
    assert usage(run_dir) == {}


def test_the_slots_of_a_killed_process_are_released(
    run_dir: Path, processes: Callable[..., list[Process]]
) -> None:
    one, two = processes(2, invocations=2)
    assert [one.ask("try a"), one.ask("try b")] == ["taken a", "taken b"]
    one.tell("take c")
    assert wait_until(lambda: usage(run_dir).get("c") == (0, 1))
    assert two.ask("try d") == "full d"
    two.tell("take d")
    assert wait_until(lambda: usage(run_dir).get("d") == (0, 1))
    one.end()
    assert two.hear() == "taken d"
    assert usage(run_dir) == {"d": (1, 0)}
    assert two.ask("try a") == "taken a"


def test_waiters_of_a_stopped_process_do_not_delay_others(
    run_dir: Path, processes: Callable[..., list[Process]]
) -> None:
    one, two = processes(2, invocations=1)
    assert two.ask("try a") == "taken a"
    one.tell("take b")
    assert wait_until(lambda: usage(run_dir).get("b") == (0, 1))
    two.tell("take c")
    assert wait_until(lambda: usage(run_dir).get("c") == (0, 1))
    one.send_signal(signal.SIGSTOP)
    eventlet.sleep(shared_table._ABSENT_SECONDS + 0.1)
    two.tell("free a")
    assert [two.hear(), two.hear()] == ["freed a", "taken c"]
    one.send_signal(signal.SIGCONT)
    two.ask("free c")
    assert one.hear(2) == "taken b"


def test_the_bounds_hold_for_any_mix_of_requests(
    run_dir: Path, processes: Callable[..., list[Process]]
) -> None:
    """Three processes take and free slots in a loop; the table never exceeds the capacity."""
    started = processes(3, invocations=6)
    for process in started:
        process.tell("spin 1.5 a b c d")
    most, end = 0, time.monotonic() + 1.4
    while time.monotonic() < end:
        most = max(most, sum(one.running for one in usage(run_dir).values()))
        eventlet.sleep(0.001)
    counts = [int(process.hear().removeprefix("spun ")) for process in started]
    assert min(counts) > 20
    assert 3 <= most <= 6
    assert usage(run_dir) == {}


def test_a_request_for_two_slots_gets_them_beside_requests_for_one(
    run_dir: Path, processes: Callable[..., list[Process]]
) -> None:
    """Tasks of six accounts in three processes share six slots; two processes take pairs."""
    started = processes(3, invocations=6)
    for process, command in zip(started, ("pairs", "pairs", "spin"), strict=True):
        process.tell(f"{command} 1.5 a b")
    most, end = 0, time.monotonic() + 1.4
    while time.monotonic() < end:
        most = max(most, sum(one.running for one in usage(run_dir).values()))
        eventlet.sleep(0.001)
    counts = [int(process.hear().removeprefix("spun ")) for process in started]
    assert min(counts) > 20
    assert most <= 6
    assert usage(run_dir) == {}


def test_a_flood_of_long_runs_does_not_hold_up_a_new_tenant(
    processes: Callable[..., list[Process]],
) -> None:
    flood, other = processes(2, invocations=64)
    flood.tell(*(["take a"] * 200))
    assert [flood.hear() for _ in range(32)] == ["taken a"] * 32
    for name in "bcd":
        began = time.monotonic()
        assert other.ask(f"take {name}") == f"taken {name}"
        assert time.monotonic() - began < 1
