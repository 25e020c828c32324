"""The parts of the time until a worker has begun an invocation."""

from __future__ import annotations

from dataclasses import asdict

from storlet_middleware.engine.start_times import StartTimes


def test_the_times_of_a_message_are_read_and_an_older_node_sends_none() -> None:
    times = StartTimes(0.5, 1.25, 0.25)
    assert StartTimes.of_message({"start_times": asdict(times)}) == times
    assert StartTimes.of_message({}) == StartTimes.of_message({"start_times": {}}) == StartTimes()


def test_the_times_of_several_storlets_add_up() -> None:
    several = [StartTimes(1, 2, 3), StartTimes(worker=0.5)]
    assert StartTimes.sum_of(several) == StartTimes(1, 2, 3.5)
