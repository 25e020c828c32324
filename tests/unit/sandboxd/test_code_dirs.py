"""The directories of accounts' code: owners, links, versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storlet_middleware.sandboxd.errors import PathFault
from storlet_middleware.sandboxd.paths import NodePaths


def test_a_link_instead_of_a_code_directory_is_refused(paths: NodePaths) -> None:
    paths.code.path_of("AUTH_a").symlink_to("/etc")
    before = Path("/etc").stat()
    with pytest.raises(PathFault):
        paths.code.make("AUTH_a", os.getuid())
    assert (Path("/etc").stat().st_uid, Path("/etc").stat().st_mode) == (
        before.st_uid,
        before.st_mode,
    )


@pytest.mark.skipif(
    os.getuid() != 0, reason="gives a directory to another user, which only root may"
)
def test_the_code_directory_belongs_to_the_requesting_user(paths: NodePaths) -> None:
    path = paths.code.make("AUTH_a", 4321)
    assert path.stat().st_uid == 4321
    paths.code.make("AUTH_a", 0)
    assert path.stat().st_uid == 4321, "a tool that runs as root must not take it away from Swift"


def test_a_version_must_be_a_real_directory(paths: NodePaths) -> None:
    code_dir = paths.code.make("AUTH_a", os.getuid())
    (code_dir / ("a" * 64)).mkdir()
    (code_dir / ("b" * 64)).symlink_to("a" * 64)
    (code_dir / ("c" * 64)).touch()
    assert [paths.code.has_version("AUTH_a", digit * 64) for digit in "abcd"] == [
        True,
        False,
        False,
        False,
    ]
