"""Bundles that must be refused, each with a part of the fault."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import zipfile
from collections.abc import Callable
from typing import Any, Final

from storlet_client.bundle import archive

DOCUMENT: Final[dict[str, Any]] = {
    "name": "thumb",
    "version": "1.0",
    "language": "python",
    "main": "thumb.Thumb",
}
FILES: Final = {"thumb.py": (b"class Thumb: pass\n", 0o644), "lib/x.py": (b"x = 1\n", 0o644)}


#: As large as all files of test cases may be, and does not compress.
LARGE: Final = hashlib.shake_128(b"cases").digest(archive.MAX_TESTS_BYTES)
CASES: Final = [{"name": "a", "input": "in", "output": "out"}]


def good(document: dict[str, Any] | None = None, tests: dict[str, bytes] | None = None) -> bytes:
    """A valid bundle, if ``tests`` are the files of its test cases."""
    out = io.BytesIO()
    others = {archive.TESTS + path: (data, 0o644) for path, data in (tests or {}).items()}
    archive.write(out, document or DOCUMENT, FILES, others=others)
    return out.getvalue()


def with_tests(**tests: bytes) -> bytes:
    """A bundle with one test case, and these files."""
    return good({**DOCUMENT, "tests": CASES}, tests)


def entry(path: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def with_entry(info: zipfile.ZipInfo, data: bytes = b"") -> bytes:
    """A valid bundle with one more entry."""
    out = io.BytesIO(good())
    with zipfile.ZipFile(out, "a") as packed:
        packed.writestr(info, data)
    return out.getvalue()


def replaced(path: str, change: Callable[[bytes], bytes]) -> bytes:
    """A valid bundle with one changed file and an unchanged lock, unless that is the file."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good())) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            new.writestr(entry(info.filename), change(data) if info.filename == path else data)
    return out.getvalue()


def patched(data: bytes, signature: bytes, offset: int, value: bytes) -> bytes:
    """``value`` at ``offset`` of the first header with ``signature``."""
    at = data.index(signature) + offset
    return data[:at] + value + data[at + len(value) :]


def overlapping() -> bytes:
    """Two entries of the directory with one local header, as in Fifield's zip bomb."""
    data = with_entry(entry("code/b.py"), b"")
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 4)
    return data[: second + 42] + b"\0\0\0\0" + data[second + 46 :]


def _lock_without_hash(data: bytes) -> bytes:
    lock = json.loads(data)
    lock["files"][0]["sha256"] = "0"
    return json.dumps(lock).encode()


def _zip64_end(data: bytes) -> bytes:
    return data[:-12] + b"\xff\xff" + data[-10:]


CORPUS: Final[dict[str, tuple[Callable[[], bytes], str]]] = {
    "empty": (lambda: b"", "not a zip"),
    "text": (lambda: b"#!/bin/sh\n" * 10, "not a zip"),
    "cut": (lambda: good()[:-30], "not a zip"),
    "cut in front": (lambda: good()[30:], "before its first entry"),
    "bytes in front": (lambda: b"#!/bin/sh\n" + good(), "before its first entry"),
    "bytes behind": (lambda: good() + b"x" * 30, "does not end with its directory"),
    "absolute": (lambda: with_entry(entry("/etc/cron.d/x")), "absolute"),
    "parent": (lambda: with_entry(entry("code/../../x")), "leaves its folder"),
    "dot": (lambda: with_entry(entry("code/./x")), "leaves its folder"),
    "empty part": (lambda: with_entry(entry("code//x")), "leaves its folder"),
    "backslash": (lambda: with_entry(entry("code\\..\\x")), "Windows"),
    "drive": (lambda: with_entry(entry("C:x")), "Windows"),
    "control": (lambda: with_entry(entry("code/a\nb")), "control"),
    "long part": (lambda: with_entry(entry("code/" + "a" * 300)), "longer than"),
    "long path": (lambda: with_entry(entry("code/" + "a/" * 600 + "b")), "longer than"),
    "elsewhere": (lambda: with_entry(entry("bin/x")), "below code/"),
    "reserved": (lambda: with_entry(entry("code/storlet.lock.json")), "reserved"),
    "folder": (lambda: with_entry(entry("code/a/")), "a folder"),
    "link": (lambda: with_entry(entry("code/a", stat.S_IFLNK | 0o777), b"/etc"), "symbolic link"),
    "device": (lambda: with_entry(entry("code/a", stat.S_IFBLK | 0o644)), "a device"),
    "pipe": (lambda: with_entry(entry("code/a", stat.S_IFIFO | 0o644)), "a device"),
    "set-uid": (lambda: with_entry(entry("code/a", stat.S_IFREG | 0o4755)), "not in"),
    "case": (lambda: with_entry(entry("code/THUMB.py")), "in case only"),
    "unicode case": (lambda: with_entry(entry("code/\uff54humb.py")), "in case only"),
    "file and folder": (lambda: with_entry(entry("code/thumb.py/x")), "a file and a folder"),
    "not in the lock": (lambda: with_entry(entry("code/new.py")), "not in storlet.lock.json"),
    "wrong hash": (lambda: replaced("code/thumb.py", lambda data: data[::-1]), "SHA-256"),
    "wrong lock": (lambda: replaced("storlet.lock.json", _lock_without_hash), "files.0"),
    "lock is no JSON": (lambda: replaced("storlet.lock.json", lambda _: b"["), "not JSON"),
    "deep JSON": (lambda: replaced("storlet.lock.json", lambda _: b"[" * 10**6), "not JSON"),
    "manifest": (lambda: replaced("storlet.json", lambda _: b'{"nam": 1}'), "did you mean name"),
    "encrypted": (lambda: patched(good(), b"PK\1\2", 8, b"\1\0"), "encrypted"),
    "descriptor": (lambda: patched(good(), b"PK\1\2", 8, b"\10\0"), "data descriptor"),
    "method": (lambda: patched(good(), b"PK\1\2", 10, b"\x0c\0"), "compression method"),
    "two disks": (lambda: patched(good(), b"PK\5\6", 4, b"\1\0"), "several disks"),
    "zip64": (lambda: patched(good(), b"PK\5\6", 8, b"\xff\xff\xff\xff"), "zip64"),
    "fewer entries": (lambda: patched(good(), b"PK\5\6", 8, b"\1\0\1\0"), "declares 1"),
    "headers differ": (lambda: patched(good(), b"PK\3\4", 14, b"\1\2\3\4"), "headers differ"),
    "names differ": (lambda: patched(good(), b"PK\3\4", 30, b"X"), "headers differ"),
    "overlap": (overlapping, "overlaps"),
    "file of no case": (lambda: with_tests(**{"in": b"", "out": b"", "x": b""}), "no test case"),
    "case without a file": (lambda: with_tests(**{"in": b""}), "tests/out: missing"),
    "large cases": (lambda: with_tests(**{"in": LARGE, "out": b"1"}), "at most 4194304"),
    "source elsewhere": (lambda: with_entry(entry("source/../code/x")), "leaves its folder"),
    "source that is a link": (
        lambda: with_entry(entry("source/a", stat.S_IFLNK | 0o777), b"/etc"),
        "symbolic link",
    ),
    "source without a hash": (lambda: with_entry(entry("source/a")), "not in storlet.lock.json"),
    "tests elsewhere": (lambda: with_entry(entry("tests/../code/x")), "leaves its folder"),
    "damaged data": (lambda: patched(good(), b"PK\3\4", 45, b"\xff\xff\xff"), "damaged"),
}
