"""A folder that all workers of pytest share: the first worker that needs it makes it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder ``name`` of this session, filled by ``make``; a failed ``make`` is repeated by the
    next worker."""
    base = factory.getbasetemp()
    # The folders of the workers of pytest-xdist are in the folder of their session.
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    place = shared / f"shared-{name}"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = shared / f"{name}.complete"
        if not complete.exists():
            place.mkdir(exist_ok=True)
            make(place)
            complete.touch()
    return place
