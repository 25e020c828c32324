from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.errors import BundleInvalid
from storlet_middleware.local.bundles import ACCOUNT, LocalBundle
from tests.support.bundles import tool
from tests.unit.middleware.support import make_config


def test_a_file_of_any_name_is_the_version_of_its_manifest(tmp_path: Path) -> None:
    path = tmp_path / "copy of tool.zip"
    path.write_bytes(tool("tool", parameters={"a": {"type": "string"}}))
    bundle = LocalBundle(make_config(tmp_path), path)
    assert (bundle.version.account, bundle.version.name) == (ACCOUNT, "tool")
    assert bundle.version.inputs == (1, 1)
    assert bundle.version.parameters == {"a": {"type": "string"}}
    (own,) = bundle.version.files
    assert b"".join(bundle.fetch(ACCOUNT, own)) == path.read_bytes()
    assert own.size == path.stat().st_size


def test_a_file_that_is_no_bundle_is_refused_as_an_upload_is(tmp_path: Path) -> None:
    path = tmp_path / "tool.storlet"
    path.write_bytes(b"x" * 100)
    with pytest.raises(BundleInvalid, match="not a zip file"):
        LocalBundle(make_config(tmp_path), path)


def test_a_limit_above_that_of_the_node_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tool.storlet"
    path.write_bytes(tool("tool", limits={"memory": "900G"}))
    with pytest.raises(BundleInvalid, match=r"limits\.memory"):
        LocalBundle(make_config(tmp_path), path)
