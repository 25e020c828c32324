"""The paths of the image."""

from __future__ import annotations

import dataclasses

import pytest

from storlet_daemon.runtimes.language import CODE_ROOT, ImagePaths, PathOption
from tests.unit.daemon.loads import VERSION, load_of

OPTION = PathOption("interpreter", "/usr/bin/x", "an interpreter")


def test_a_path_is_the_chosen_one_or_the_default() -> None:
    assert ImagePaths().get(OPTION) == "/usr/bin/x"
    assert ImagePaths({"interpreter": "/opt/x"}).get(OPTION) == "/opt/x"
    assert ImagePaths({"other": "/opt/x"}).get(OPTION) == "/usr/bin/x"


def test_the_folder_of_a_storlet_version_is_named_for_its_code() -> None:
    other = "a1" * 32
    load = load_of(version=VERSION, code=other)
    assert ImagePaths().execution_path(load) == f"{CODE_ROOT.default}/{other}"
    assert ImagePaths({CODE_ROOT.name: "/code"}).execution_path(load) == f"/code/{other}"


def test_paths_are_values() -> None:
    assert ImagePaths({"a": "/b"}) == ImagePaths({"a": "/b"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        OPTION.default = "/other"  # type: ignore[misc]
