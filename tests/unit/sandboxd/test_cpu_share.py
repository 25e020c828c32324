"""The CPU time that the messages of one sandbox may take."""

from __future__ import annotations

import time

import pytest

from storlet_middleware.sandboxd import cpu_share
from storlet_middleware.sandboxd.cpu_share import CpuShare


def test_share_is_exceeded_by_more_than_the_burst_and_refilled_with_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    share = CpuShare()
    assert share.take(cpu_share.BURST_SECONDS)
    assert not share.take(0.1)
    now += 1.0
    assert share.take(cpu_share.SHARE - 0.11)
    now += 1000.0
    assert share.take(cpu_share.BURST_SECONDS)
    assert not share.take(0.001)
