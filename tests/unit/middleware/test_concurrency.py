"""Long waits share one timer of the hub and end in time; writes wait for room."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from eventlet import hubs

from storlet_middleware.concurrency import (
    Bell,
    KeyedSemaphore,
    Pace,
    Signal,
    WaitExpired,
    call_later,
    end,
    monotonic,
    result_of,
    sleep,
    spawn,
    wait_readable,
    when_writable,
    write_all,
)
from tests.unit.middleware.support import wait_until

LONG = 30.0
#: The rest of a wait for slow output, in seconds.
JUST_LESS_THAN_A_TICK = 0.0999


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end_ in ends:
        os.close(end_)


@pytest.fixture(scope="module", autouse=True)
def _ticks_of_other_modules() -> None:
    """Wait for the ticks that other modules have left."""
    sleep(0.25)


@pytest.fixture(autouse=True)
def timers_before(_ticks_of_other_modules: None) -> Iterator[int]:
    """Count the hub's other timers; a test adds none that outlives the next ticks."""
    before = timers()
    yield before
    assert wait_until(lambda: timers() <= before, 1)


def timers() -> int:
    """The number of pending timers of the hub."""
    hub = hubs.get_hub()
    hub.prepare_timers()
    return sum(not timer.called for _, timer in hub.timers)


@pytest.mark.parametrize("seconds", [0.02, 0.05, 0.3])
def test_a_wait_expires_not_before_its_time(pipe: tuple[int, int], seconds: float) -> None:
    began = monotonic()
    with pytest.raises(WaitExpired):
        wait_readable(pipe[0], seconds)
    assert monotonic() - began >= seconds


def test_a_wait_that_is_over_expires_at_once(pipe: tuple[int, int]) -> None:
    with pytest.raises(WaitExpired):
        wait_readable(pipe[0], 0)


def test_a_short_wait_leaves_no_cancelled_timer(pipe: tuple[int, int]) -> None:
    hub, fired = hubs.get_hub(), []
    kept = hub.schedule_call_global(0.005, fired.append, 1)
    os.write(pipe[1], b"x")
    wait_readable(pipe[0], 0.003)
    hub.prepare_timers()
    assert all(timer is kept or not timer.called for _, timer in hub.timers[:1])
    assert wait_until(lambda: fired == [1], 1)


def test_a_long_wait_removes_cancelled_timers_of_others(pipe: tuple[int, int]) -> None:
    hub, fired = hubs.get_hub(), []
    for milliseconds in (2, 1, 3):
        hub.schedule_call_global(milliseconds / 1000, fired.append, milliseconds).cancel()
    hub.schedule_call_global(0.004, fired.append, 4)
    hub.prepare_timers()
    counted = hub.timers_canceled
    os.write(pipe[1], b"x")
    wait_readable(pipe[0], LONG)
    assert not hub.timers[0][1].called
    assert hub.timers_canceled <= counted
    assert wait_until(lambda: fired == [4], 1)


@pytest.mark.parametrize("seconds", [LONG, JUST_LESS_THAN_A_TICK])
def test_a_hundred_waits_have_one_timer(timers_before: int, seconds: float) -> None:
    pipes = [os.pipe() for _ in range(100)]
    tasks = [spawn(wait_readable, reader, seconds) for reader, _ in pipes]
    sleep(0.01)
    assert timers() <= timers_before + 1
    for _, writer in pipes:
        os.write(writer, b"x")
    for task in tasks:
        task.wait()
    for ends in pipes:
        os.close(ends[0])
        os.close(ends[1])


def test_a_wait_that_is_killed_leaves_no_timer(pipe: tuple[int, int]) -> None:
    task = spawn(wait_readable, pipe[0], LONG)
    sleep(0.01)
    end(task)


def test_all_is_written_to_a_stream_that_has_no_room_at_times(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    data = os.urandom(300_000)
    counts: list[int] = []
    task = spawn(write_all, writing, data, counts.append)
    received = b""
    while len(received) < len(data):
        wait_readable(reading, LONG)
        received += os.read(reading, 65_536)
    task.wait()
    assert received == data
    assert sum(counts) == len(data)
    assert len(counts) > 1


def test_a_write_that_finds_no_room_expires(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)

    def write() -> None:
        while True:
            os.write(pipe[1], bytes(65_536))

    with pytest.raises(WaitExpired):
        when_writable(pipe[1], write, monotonic() + 0.05)


def test_a_writer_without_a_reader_raises() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.close(reading)
    try:
        with pytest.raises(BrokenPipeError):
            write_all(writing, b"data", lambda _: None)
    finally:
        os.close(writing)


def test_a_cancelled_call_is_never_made() -> None:
    called: list[str] = []
    call_later(0.2, lambda: called.append("no")).cancel()
    call_later(0.2, lambda: called.append("yes"))
    sleep(0.5)
    assert called == ["yes"]


def test_calls_that_raise_hold_up_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    called: list[float] = []

    def fail() -> None:
        raise ZeroDivisionError

    began = monotonic()
    for _ in range(50):
        call_later(0.2, fail)
    call_later(0.2, lambda: called.append(monotonic() - began))
    assert wait_until(lambda: bool(called), 10)
    assert called[0] < 2
    assert capsys.readouterr().err.count("\nZeroDivisionError\n") == 50


def test_a_call_may_begin_another() -> None:
    called: list[str] = []

    def begin() -> None:
        called.append("first")
        call_later(0.2, lambda: called.append("second"))

    call_later(0.2, begin)
    assert wait_until(lambda: len(called) == 2, 10)
    assert called == ["first", "second"]


def test_long_computations_together_leave_the_hub_most_of_its_time() -> None:
    ends = monotonic() + 0.4
    computed = 0.0

    def compute() -> None:
        nonlocal computed
        pace = Pace()
        while (begin := monotonic()) < ends:
            while monotonic() < begin + 0.0005:
                pass
            computed += monotonic() - begin
            pace.pause()

    tasks = [spawn(compute) for _ in range(4)]
    for task in tasks:
        task.wait()
    assert 0.02 < computed < 0.25


def test_a_short_computation_does_not_pause() -> None:
    turns: list[int] = []
    task = spawn(turns.append, 1)
    Pace().pause()
    assert not turns
    task.wait()


def test_result_of_gives_the_result_or_the_error_of_the_function() -> None:
    released: list[int] = []
    assert result_of(divmod, 7, 2, release=released.append) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        result_of(divmod, 7, 0, release=released.append)
    assert not released


def test_result_of_releases_the_result_that_its_ended_caller_does_not_take() -> None:
    released: list[int] = []
    may_end = Signal()

    def slow() -> int:
        may_end.wait(10)
        return 42

    caller = spawn(lambda: result_of(slow, release=released.append))
    sleep(0)
    end(caller)
    assert not released
    may_end.set()
    sleep(0.01)
    assert released == [42]


def test_result_of_releases_nothing_if_the_function_fails_after_its_caller_ended() -> None:
    released: list[int] = []
    may_end = Signal()

    def failing() -> int:
        may_end.wait(10)
        raise ValueError("failed")

    caller = spawn(lambda: result_of(failing, release=released.append))
    sleep(0)
    end(caller)
    may_end.set()
    sleep(0.01)
    assert not released


def test_a_bell_wakes_all_that_wait_and_has_no_memory() -> None:
    bell, woken = Bell(), []
    tasks = [spawn(lambda: woken.append(bell.wait(5))) for _ in range(2)]
    sleep(0)
    bell.ring()
    for task in tasks:
        task.wait()
    assert woken == [True, True]
    assert not bell.wait(0.01)
    bell.ring()
    assert not bell.wait(-1)


def test_a_keyed_semaphore_bounds_each_key_and_keeps_nothing() -> None:
    slots = KeyedSemaphore(2)
    held: dict[str, int] = {"a": 0, "b": 0}
    is_over = Signal()

    def hold(key: str) -> None:
        with slots.held(key):
            held[key] += 1
            while not is_over.is_set:
                sleep(0.001)

    tasks = [spawn(hold, key) for key in "aaaab"]
    waiting = spawn(hold, "a")
    sleep(0.01)
    assert held == {"a": 2, "b": 1}
    assert (slots.users("a"), slots.users("b"), slots.users("c")) == (5, 1, 0)
    with pytest.raises(WaitExpired), slots.held("a", 0.01):
        pass
    end(waiting)
    is_over.set()
    for task in tasks:
        task.wait()
    assert held == {"a": 4, "b": 1}
    assert not slots._used
