"""Bundles on a node: unpacked with fixed modes, identical files shared between versions."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import stat
import zipfile
from pathlib import Path

import pytest

from storlet_middleware import code_folders
from storlet_middleware.bundle.archive import LOCK
from storlet_middleware.engine import unpack_process
from storlet_middleware.engine.unpack_process import Altered, unpack
from tests.support.bundles import bundle, tool


def unpacked(home: Path, name: str, data: bytes) -> Path:
    """The folder of a version, as :mod:`storlet_middleware.engine.code_cache` makes it."""
    work = home / f".tmp-{name}"
    work.mkdir()
    packed = work / "x.storlet"
    packed.write_bytes(data)
    unpack(packed, hashlib.sha256(data).hexdigest(), work)
    final = home / (name * 64)
    (work / unpack_process.CODE).rename(final)
    return final


def test_files_have_their_content_and_no_write_permission(tmp_path: Path) -> None:
    old = os.umask(0o077)
    try:
        code = unpacked(
            tmp_path,
            "a",
            bundle("t", {"t.py": (b"1", 0o644), "lib/x": (b"2", 0o755)}, main="t.T"),
        )
    finally:
        os.umask(old)
    assert (code / "t.py").read_bytes() == b"1"
    modes = {
        path.name: path.stat().st_mode & 0o777
        for path in (code / "t.py", code / "lib/x", code / "lib")
    }
    assert modes == {"t.py": 0o444, "x": 0o555, "lib": 0o755}


def test_identical_files_of_versions_are_one_file(tmp_path: Path) -> None:
    one = unpacked(tmp_path, "a", tool("tool", "one"))
    two = unpacked(tmp_path, "b", tool("tool", "two"))
    assert (one / "lib/helper.py").stat().st_ino == (two / "lib/helper.py").stat().st_ino
    assert (one / "tool.py").stat().st_ino != (two / "tool.py").stat().st_ino
    assert b"two" in (two / "tool.py").read_bytes()


def test_files_with_another_mode_are_not_shared(tmp_path: Path) -> None:
    for name, mode in (("a", 0o644), ("b", 0o755)):
        unpacked(tmp_path, name, bundle("t", {"t.py": (b"1", mode)}, main="t.T"))
    assert (tmp_path / ("a" * 64) / "t.py").stat().st_nlink == 1


def test_neighbour_that_is_damaged_or_evicted_is_not_used(tmp_path: Path) -> None:
    one = unpacked(tmp_path, "a", tool("tool", "one"))
    (one / "lib/helper.py").unlink()
    (tmp_path / ("c" * 64)).mkdir()
    (tmp_path / ("c" * 64) / "storlet.lock.json").write_text("[]")
    two = unpacked(tmp_path, "b", tool("tool", "two"))
    assert (two / "lib/helper.py").exists()


def test_altered_bundle_is_not_unpacked(tmp_path: Path) -> None:
    packed = tmp_path / "x.storlet"
    packed.write_bytes(tool("tool"))
    with pytest.raises(Altered):
        unpack(packed, "0" * 64, tmp_path)
    assert not (tmp_path / unpack_process.CODE).exists()


def test_files_of_test_cases_and_the_manifest_are_not_unpacked(tmp_path: Path) -> None:
    """Also where the code has files of their names, with other content; and no source is."""
    cases = [{"name": "a", "input": "in"}]
    files = {"t.py": (b"1", 0o644), "tests/in": (b"code", 0o644), "storlet.json": (b"2", 0o644)}
    source = {"src/t.c": (b"int x;", 0o644)}
    packed = bundle("t", files, {"in": b"input"}, source, main="t.T", tests=cases)
    code = unpacked(tmp_path, "a", packed)
    assert not (code / "src").exists()
    assert (code / "tests/in").read_bytes() == b"code"
    assert (code / "storlet.json").read_bytes() == b"2"
    other = {"t.py": (b"1", 0o644), "x": (b"input", 0o644)}
    code = unpacked(tmp_path, "b", bundle("t", other, main="t.T"))
    assert (code / "x").read_bytes() == b"input"


def test_data_are_found_behind_extra_fields(tmp_path: Path) -> None:
    bodies = {
        "code/t.py": b"1" * 300_000,
        "code/lib/\u00e9.py": os.urandom(200_000),
        "code/empty": b"",
    }
    rows = [
        {
            "path": path,
            "size": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
            "mode": "0644",
        }
        for path, body in bodies.items()
    ]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, body in (*bodies.items(), (LOCK, json.dumps({"files": rows}).encode())):
            info = zipfile.ZipInfo(path)
            info.extra = b"\x99\x99\x04\x00abcd"
            info.compress_type = (
                zipfile.ZIP_DEFLATED if path.endswith("t.py") else zipfile.ZIP_STORED
            )
            archive.writestr(info, body)
    code = unpacked(tmp_path, "a", packed.getvalue())
    for path, body in bodies.items():
        assert (code / path.removeprefix("code/")).read_bytes() == body


def test_code_is_marked_when_all_of_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = unpacked(tmp_path, "a", tool("tool"))
    every = {code, *code.rglob("*")}
    assert stat.S_IMODE(code.stat().st_mode) == code_folders.IN_MEMORY
    synced: set[Path] = set()

    def fsync(fd: int) -> None:
        assert not code_folders.is_on_disk(code.stat().st_mode)
        synced.add(Path(f"/proc/self/fd/{fd}").readlink())

    monkeypatch.setattr(unpack_process.os, "fsync", fsync)
    unpack_process.keep(code)
    assert synced == every
    assert stat.S_IMODE(code.stat().st_mode) == code_folders.ON_DISK


def test_files_that_another_version_has_not_synced_yet_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (unpacked(tmp_path, key, tool("tool", key)) for key in "ab")
    synced: set[int] = set()
    monkeypatch.setattr(unpack_process.os, "fsync", lambda fd: synced.add(os.fstat(fd).st_ino))
    unpack_process.keep(two)
    assert (one / "lib/helper.py").stat().st_ino in synced


@pytest.mark.parametrize("call", ["fsync", "scandir"])
def test_code_is_removed_when_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    code = unpacked(tmp_path, "a", tool("tool"))
    folder = os.open(code, os.O_RDONLY)

    def failing(_: object) -> None:
        raise OSError(errno.EIO, "")

    with monkeypatch.context() as broken:
        broken.setattr(os, call, failing)
        # The removal lists the folders, too.
        removed: list[Path] = []
        broken.setattr(shutil, "rmtree", removed.append)
        unpack_process.keep_or_remove(folder)
    os.close(folder)
    assert not code.exists()
    (gone,) = removed
    assert code_folders.TEMPORARY in gone.name
    assert not code_folders.is_on_disk(gone.stat().st_mode)


def test_code_of_a_disk_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = unpacked(tmp_path, "a", tool("tool"))
    folder = os.open(code, os.O_RDONLY)

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "")

    monkeypatch.setattr(os, "fsync", failing)
    unpack_process.keep_or_remove(folder)
    os.close(folder)
    assert [each.name for each in tmp_path.iterdir()] == [".tmp-a"]
