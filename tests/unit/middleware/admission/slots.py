"""Slots of one process, for the tests of admission."""

from __future__ import annotations

from pathlib import Path

from storlet_middleware.admission.controller import Admission, Slot, snapshot, tenant_hash
from storlet_middleware.admission.shared_table import Usage
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import make_config

MIB = 1 << 20


def usage(run_dir: Path) -> dict[str, Usage]:
    """Return the usage by account, for the accounts of the tests."""
    names = {tenant_hash(name).hex(): name for name in ("a", "b", "c", "d")}
    return {names[key]: value for key, value in snapshot(run_dir).items()}


def new(run_dir: Path, **options: str) -> Admission:
    return Admission(make_config(run_dir, **{"admission__invocations": "8", **options}), Logger())


def take(admission: Admission, account: str = "a", group: str = "g", memory: int = MIB) -> Slot:
    """Wait for a slot without a deadline; a refusal is raised."""
    waiting = admission.acquire(admission.claim(account, group, memory), None)
    try:
        next(waiting)
    except StopIteration as end:
        slot: Slot = end.value
        return slot
    raise AssertionError("it yields at beats only")


def take_together(admission: Admission, count: int, account: str = "a") -> list[Slot]:
    """As :func:`take`, for slots of different groups."""
    claims = [admission.claim(account, f"g{index}", MIB) for index in range(count)]
    waiting = admission.acquire_together(claims, None)
    try:
        next(waiting)
    except StopIteration as end:
        slots: list[Slot] = end.value
        return slots
    raise AssertionError("it yields at beats only")
