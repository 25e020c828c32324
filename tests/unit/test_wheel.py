"""The wheel of production: which files it has."""

from __future__ import annotations

import zipfile

import pytest

from storlet_middleware.aio import cache, venv
from tests.support.client_package import server_wheel


@pytest.fixture(scope="module")
def files() -> set[str]:
    """The names of all files in a wheel that is built from this checkout."""
    with zipfile.ZipFile(server_wheel()) as archive:
        return set(archive.namelist())


def test_the_wheel_has_every_module_of_the_product(files: set[str]) -> None:
    modules = {
        str(path.relative_to(venv.CHECKOUT))
        for package in venv.PACKAGES
        for path in cache.tree_files(venv.CHECKOUT / package)
        # A wheel has no links: each storlet of the library has a copy of its shared modules.
        if path.suffix == ".py" and path.parent.name not in {"aio", "shared"}
    }
    assert {name for name in files if name.endswith(".py")} == modules


def test_the_wheel_has_no_part_of_the_all_in_one_cluster_and_no_test(files: set[str]) -> None:
    assert [name for name in files if "/aio/" in name or name.startswith("tests")] == []


@pytest.mark.parametrize("package", venv.PACKAGES)
def test_each_package_of_the_wheel_is_marked_as_typed(files: set[str], package: str) -> None:
    assert f"{package}/py.typed" in files


def test_the_wheel_has_the_protocol_and_the_sample_of_the_options(files: set[str]) -> None:
    assert "storlet_daemon/protocol/PROTOCOL.rst" in files
    assert any(name.endswith("share/swift-storlets/etc/storlet.conf-sample") for name in files)
