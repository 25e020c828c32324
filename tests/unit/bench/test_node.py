"""The node seen from its own side."""

from __future__ import annotations

import os

from tests.bench.node import pss_bytes


def test_private_memory_is_a_part_of_a_processs_memory() -> None:
    me = [os.getpid()]
    assert 0 < pss_bytes(me, own=True) < pss_bytes(me)
    assert pss_bytes([]) == 0
