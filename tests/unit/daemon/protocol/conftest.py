"""A check that a test leaves no descriptor open."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest


def open_descriptors() -> list[str]:
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


@pytest.fixture(scope="module", autouse=True)
def no_garbage() -> None:
    """Garbage of earlier modules must not close descriptors during a test of this one."""
    gc.collect()


@pytest.fixture(autouse=True)
def no_descriptor_is_left(no_garbage: None) -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before
