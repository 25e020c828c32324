"""The names and modes of the folders of code on a node."""

from __future__ import annotations

from pathlib import Path

from storlet_middleware import code_folders


def test_the_mode_shows_whether_a_folder_is_on_the_disk(tmp_path: Path) -> None:
    tmp_path.chmod(code_folders.IN_MEMORY)
    assert not code_folders.is_on_disk(tmp_path.stat().st_mode)
    tmp_path.chmod(code_folders.ON_DISK)
    assert code_folders.is_on_disk(tmp_path.stat().st_mode)


def test_temporary_names_are_distinct_and_never_those_of_a_version() -> None:
    version = Path("/code") / ("a" * 64)
    found = {code_folders.temporary(version) for _ in range(100)}
    assert len(found) == 100
    for path in found:
        assert path.parent == version.parent
        assert path.name.startswith(code_folders.TEMPORARY)
        assert not code_folders.is_version(path)
    assert code_folders.is_version(version)
