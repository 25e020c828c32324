"""The response of the process that reads a bundle."""

from __future__ import annotations

import hashlib
import io

from storlet_middleware.bundle.archive import Bounds
from storlet_middleware.catalog import bundle_process
from tests.support.bundles import tool
from tests.unit.client.bundle.hostile import CORPUS


def test_valid_bundle_gives_its_hash_and_manifest() -> None:
    data = tool("tool")
    found = bundle_process.verify(io.BytesIO(data), Bounds())
    assert found["faults"] == []
    assert found["sha256"] == hashlib.sha256(data).hexdigest()
    assert found["manifest"]["name"] == "tool"


def test_hostile_bundle_gives_its_faults() -> None:
    make, part = CORPUS["parent"]
    (fault,) = bundle_process.verify(io.BytesIO(make()), Bounds())["faults"]
    assert part in fault
