"""Tests of flows: what a flow holds ends with it, and not with the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_garbage_collector() -> Iterator[None]:
    """An error refers to its frames, and a cycle of them would hold spools for any time."""
    gc.disable()
    yield
    gc.enable()
