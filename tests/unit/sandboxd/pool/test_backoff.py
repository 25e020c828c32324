"""Back-off before a sandbox that ended is started again."""

from __future__ import annotations

import asyncio

import pytest

from storlet_middleware.errors import SandboxUnavailable
from storlet_middleware.sandboxd.pool import backoff


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


def test_a_start_that_would_wait_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        kept = backoff.Backoffs()
        assert ("k" in kept, kept.wait_seconds("k")) == (False, 0.0)
        for _ in range(backoff.FREE + 3):
            kept.check("k")
            kept.ended("k", 0.1, "it was killed")
        assert ("k" in kept, "other" in kept) == (True, False)
        with pytest.raises(SandboxUnavailable, match="8 times in a row, last: it was killed"):
            kept.check("k")
        kept.forget_old()
        assert "k" in kept
        monkeypatch.setattr(backoff, "LONGEST_SECONDS", -1.0)
        kept.forget_old()
        assert "k" not in kept

    asyncio.run(run())
