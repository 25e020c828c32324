"""The timestamps of a run."""

from __future__ import annotations

from storlet_middleware.proxy.times import Times


def test_a_moment_counts_from_the_start_of_the_run() -> None:
    times = Times(10.0)
    assert times.since_begin(times.authorized) is None
    times.authorized = 10.5
    assert times.since_begin(times.authorized) == 0.5
