"""Unpacks a bundle in a process of its own.

The process is ``python -m storlet_middleware.engine.unpack_process``.  Its arguments are the
limit of CPU seconds, the bundle, its SHA-256, and the folder in which it makes :data:`CODE`.  A
line of input means that the bundle is complete.  It answers with a line: the fault of the
bundle, or nothing.  A proxy has verified a bundle with this hash, so paths and sizes need no other
check.

The end of the input means that the server has given :data:`CODE` its final name, or has removed it.
The process then syncs it while the storlet already runs, and records that in its mode.  If the disk
fails, it removes the folder: its files can be damaged when they are read again.

A file that another version of the account has already, by hash and mode, becomes a hard link to it:
no other store is kept, and a file lives as long as any version that has it.  Tenants cannot write
any of them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from storlet_middleware import child_limits, code_folders
from storlet_middleware.bundle import archive

CODE: Final = "code"
#: The exit status if the disk is full.
NO_SPACE: Final = 4
_NO_SPACE_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT)
#: The kernel commits files together that are synced at the same time.  A numpy of 1,000 files takes
#: 0.1 s; synced one after another 0.6 s.
_SYNC_THREADS: Final = 16
#: Expansion and writes release the interpreter lock; what remains fills one CPU.
_UNPACK_THREADS: Final = 2
#: Neighbours that are searched for identical files, newest first.
_NEIGHBOURS: Final = 8
#: Packed bytes that are expanded at a time, at most a thousandfold.
_CHUNK: Final = 1 << 16
#: The lengths of the name and of the extra fields, which the data of an entry follow.
_LOCAL_HEADER: Final = struct.Struct("<26xHH")


class Altered(ValueError):
    """The bundle does not have the hash that was verified."""


def unpack(bundle: Path, digest: str, directory: Path) -> None:
    """Make ``directory``/code, readable by all users."""
    with bundle.open("rb") as packed:
        if hashlib.file_digest(packed, "sha256").hexdigest() != digest:
            raise Altered("it arrived altered")
        code = directory / CODE
        _make_folder(code)
        with zipfile.ZipFile(packed) as zipped:
            lock = zipped.read(archive.LOCK)
            entries = {each.filename: each for each in zipped.infolist()}
        known = _known_files(directory.parent)
        rows = _rows_of_code(lock)
        for folder in sorted({_path_of(code, row).parent for row in rows}):
            _make_folder(folder)
        with ThreadPoolExecutor(_UNPACK_THREADS) as threads:
            # A library has one file that is half of it: the largest begin first.
            rows.sort(key=lambda row: -row["size"])
            for _ in threads.map(
                lambda row: _place(packed.fileno(), entries[row["path"]], code, known, row), rows
            ):
                pass
    (code / archive.LOCK).write_bytes(lock)


def keep(code: Path) -> None:
    """Sync all below ``code``, and record that in its mode.

    Files that are links too: the version that has them already may not be on the disk yet.
    """
    walk = os.walk(code, onerror=_fail)
    every = [Path(folder, name) for folder, _, names in walk for name in (*names, ".")]
    with ThreadPoolExecutor(_SYNC_THREADS) as threads:
        for _ in threads.map(code_folders.sync, every):
            pass
    code.chmod(code_folders.ON_DISK)


def _fail(error: OSError) -> None:
    """A folder that cannot be listed has files that are not synced."""
    raise error


def keep_or_remove(folder: int) -> None:
    """Sync the folder of the descriptor ``folder``, or remove it; it may be renamed meanwhile."""
    path = Path(f"/proc/self/fd/{folder}")
    try:
        keep(path)
    except OSError:  # the disk fails, or the version was evicted
        with contextlib.suppress(OSError):
            named = path.readlink()
            shutil.rmtree(named.rename(code_folders.temporary(named)))


def _rows_of_code(lock: bytes) -> list[dict[str, Any]]:
    """The files that a run has: neither the manifest nor those of test cases."""
    rows: list[dict[str, Any]] = json.loads(lock)["files"]
    return [row for row in rows if row["path"].startswith(archive.CODE)]


def _known_files(home: Path) -> dict[tuple[str, str], Path]:
    """Files of other versions of the account, by hash and mode."""
    known: dict[tuple[str, str], Path] = {}
    folders = [each for each in home.iterdir() if code_folders.is_version(each)]
    with contextlib.suppress(OSError):  # evicted meanwhile
        folders.sort(key=lambda each: -each.stat().st_mtime)
    for folder in folders[:_NEIGHBOURS]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            for row in _rows_of_code((folder / archive.LOCK).read_bytes()):
                known[row["sha256"], row["mode"]] = folder / row["path"].removeprefix(archive.CODE)
    return known


def _place(
    packed: int,
    entry: zipfile.ZipInfo,
    code: Path,
    known: dict[tuple[str, str], Path],
    row: dict[str, Any],
) -> None:
    """Link one file, or write it."""
    path = _path_of(code, row)
    neighbour = known.get((row["sha256"], row["mode"]))
    if neighbour is not None:
        with contextlib.suppress(OSError):  # evicted meanwhile, or the file has too many links
            path.hardlink_to(neighbour)
            return
    # For any umask: the tenant's uid is "other" here.
    mode = 0o555 if row["mode"] == "0755" else 0o444
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for data in _expanded(packed, entry):
            _write(out, data)
        os.fchmod(out, mode)
    finally:
        os.close(out)


def _expanded(packed: int, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """The bytes of an entry.

    The library's reader takes 0.1 ms more for each of a thousand files, in which no other thread
    runs.
    """
    header = os.pread(packed, _LOCAL_HEADER.size, entry.header_offset)
    at = entry.header_offset + _LOCAL_HEADER.size + sum(_LOCAL_HEADER.unpack(header))
    end = at + entry.compress_size
    is_packed = entry.compress_type == zipfile.ZIP_DEFLATED
    inflate = zlib.decompressobj(-zlib.MAX_WBITS) if is_packed else None
    while data := os.pread(packed, min(end - at, _CHUNK), at):
        at += len(data)
        yield data if inflate is None else inflate.decompress(data)


def _write(out: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(out, view) :]


def _path_of(code: Path, row: dict[str, Any]) -> Path:
    return code / str(row["path"]).removeprefix(archive.CODE)


def _make_folder(path: Path) -> None:
    if not path.is_dir():
        if not path.parent.is_dir():
            _make_folder(path.parent)
        path.mkdir()
        path.chmod(0o755)


def main() -> None:
    child_limits.confine(int(sys.argv[1]))
    if not sys.stdin.readline():
        return  # the server has ended
    directory = Path(sys.argv[4])
    try:
        unpack(Path(sys.argv[2]), sys.argv[3], directory)
        # The server renames it when it has the answer.
        folder = os.open(directory / CODE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NO_SPACE_ERRORS:
            sys.exit(NO_SPACE)
        sys.exit(f"{type(error).__name__}: {error.strerror}")
    except Altered as error:
        sys.stdout.write(f"{error}\n")
        return
    sys.stdout.write("\n")
    sys.stdout.flush()
    child_limits.give_way()
    sys.stdin.read()
    keep_or_remove(folder)
    os.close(folder)


if __name__ == "__main__":
    main()
