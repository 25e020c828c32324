"""``std:fixity``: digests equal those of hashlib, and wrong parameters are refused together."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import zlib
from typing import Any

import blake3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("fixity")
MANIFEST = shared("digest_manifest")
ALGORITHMS = ("md5", "sha1", "sha256", "sha512", "blake2b", "blake3", "crc32", "crc32c")
DATA = b"test"
SHA256 = hashlib.sha256(DATA).hexdigest()


def digest(name: str, data: bytes) -> str:
    """The digest without threads and blocks."""
    if name == "crc32c":
        return f"{slow_crc32c(data):08x}"
    if name == "blake3":
        return blake3.blake3(data).hexdigest()
    return f"{zlib.crc32(data):08x}" if name == "crc32" else hashlib.new(name, data).hexdigest()


def slow_crc32c(data: bytes) -> int:
    """Bit by bit, with the polynomial of Castagnoli."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def report(data: bytes, **parameters: str) -> dict[str, Any]:
    ran = STORLET.run(data, parameters)
    assert ran.metadata == {"Content-Type": "application/json"}
    assert ran.output.count(b"\n") == 1
    found: dict[str, Any] = json.loads(ran.output)
    return found


def failure(*further: bytes, **parameters: str) -> str:
    with pytest.raises(STORLET.module.FixityError) as caught:
        STORLET.run(DATA, parameters, further=further)
    return str(caught.value)


@given(
    data=st.binary(max_size=100),
    names=st.lists(st.sampled_from(ALGORITHMS), min_size=1, unique=True),
    block=st.integers(1, 40),
)
def test_digests_are_those_of_hashlib(data: bytes, names: list[str], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(STORLET.module, "BLOCK_BYTES", block)
        found = report(data, algorithms=", ".join(names))
    assert found == {"bytes": len(data), "digests": {name: digest(name, data) for name in names}}


def test_known_digests() -> None:
    found = report(b"123456789", algorithms="crc32c")["digests"]
    assert found == {"crc32c": "e3069283"}
    found = report(b"", algorithms="blake3")["digests"]
    assert found["blake3"].startswith("af1349b9f5f9a1a6a0404dea36dcc949")


@pytest.mark.parametrize("name", ["blake3", "crc32c"])
def test_an_image_without_the_package_names_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    for wanted in ({"algorithms": f"md5,{name}"}, {"expected": f"{name}:{digest('md5', DATA)}"}):
        assert f"algorithms: {name} needs the Python package {name}, which" in failure(**wanted)
    assert report(DATA)["digests"] == {"sha256": SHA256}


def test_an_object_of_several_blocks_and_its_copy() -> None:
    data = bytes(range(251)) * 20_000
    quick = [name for name in ALGORITHMS if name != "crc32c"]
    digests = ",".join(f"{name}:{digest(name, data)}" for name in quick)
    given = {"expected": digests, "mode": "fail", "output": "data"}
    ran = STORLET.run(data, given, {"Colour": "red"})
    assert ran.output == data
    assert ran.metadata == {"Colour": "red"}


def test_without_a_thread_the_digests_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert report(DATA, algorithms="sha256,crc32")["digests"] == {
        "sha256": SHA256, "crc32": "d87f7e0c"
    }  # fmt: skip


def test_no_thread_stays_after_a_failure() -> None:
    before = threading.active_count()
    failure(expected="crc32:00000000", mode="fail")
    assert threading.active_count() == before


def test_the_default_is_sha256() -> None:
    assert report(DATA)["digests"] == {"sha256": SHA256}


def test_a_report_names_the_digests_that_are_wrong() -> None:
    found = report(DATA, algorithms="sha1", expected=f"crc32:00000000,sha256:{SHA256.upper()}")
    assert (found["matches"], found["wrong"]) == (False, ["crc32"])
    assert list(found["digests"]) == ["sha1", "crc32", "sha256"]
    assert report(DATA, expected="crc32:d87f7e0c")["matches"] is True


def test_a_failure_has_both_digests() -> None:
    assert failure(expected="crc32:00000000", mode="fail") == "crc32 is d87f7e0c, not 00000000"


def test_all_faults_of_the_parameters_are_reported_at_once() -> None:
    text = failure(algorithms="md6,crc64", expected="md7:00, crc32:0, md5", output="data")
    known = ", ".join(ALGORITHMS)
    assert text.split("; ") == [
        f"algorithms: md6: unknown: want some of {known}",
        f"algorithms: crc64: unknown: want some of {known}",
        f"expected: md7:00: want ALGORITHM:DIGEST with one of {known}",
        "expected: crc32:0: crc32 has 8 hexadecimal digits",
        "expected: md5: md5 has 32 hexadecimal digits",
        "output=data: has no report: set mode=fail",
    ]
    assert failure(mode="fail") == "mode=fail: there is no digest in expected, and no manifest"
    twice = failure(expected="crc32:00000000,crc32:d87f7e0c")
    assert twice == "expected: crc32 has two digests"


MD5 = digest("md5", DATA)
OTHER = digest("sha256", b"other")


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (f"{SHA256}  data/a b.txt", "data/a b.txt"),
        (f"{SHA256.upper()} *./data/a", "data/a"),
        (f"{SHA256}\tdata/a\r", "./data/a"),
        (f"\ufeff{SHA256}  data/a", "data/a"),
        (f"{SHA256}  data/50%25%0Aoff", "data/50%\noff"),
        (f"{SHA256}  data/50%25", "data/50%25"),
        (f"\\{SHA256}  data/a\\nb\\\\c", "data/a\nb\\c"),
        (f"SHA256 (data/a) = {SHA256}", "data/a"),
        (f"SHA2-256(data/a)= {SHA256}", "data/a"),
        (f"SHA-256 (data/(1)) = {SHA256}", "data/(1)"),
    ],
)
def test_lists_of_digests(line: str, path: str) -> None:
    lines = f"{line}\n{OTHER}  data/other\n".encode()
    ran = STORLET.run(DATA, {"path": path}, further=[lines])
    found = json.loads(ran.output)
    assert (found["digests"], found["matches"]) == ({"sha256": SHA256}, True)
    wrong = lines.replace(SHA256.encode(), OTHER.encode())
    wrong = wrong.replace(SHA256.upper().encode(), OTHER.encode())
    assert f"sha256 is {SHA256}, not {OTHER}" in failure(wrong, path=path, mode="fail")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [75, 80, 1 << 16])
def test_each_end_of_a_line_that_bags_may_have(
    end: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{OTHER}  data/{number}" for number in range(3)]
    lists = end.join([*lines, f"{SHA256}  data/a", "", *lines, "no list", ""]).encode()
    monkeypatch.setattr(MANIFEST, "MOST_LINE_BYTES", block)
    assert "line 9: want a digest and a name" in failure(lists, path="data/a")
    valid = lists.replace(b"no list", f"{MD5}  b".encode())
    ran = STORLET.run(DATA, {"path": "data/a"}, further=[valid])
    assert json.loads(ran.output)["matches"] is True


def test_several_manifests_and_an_expected_digest() -> None:
    lists = [f"{MD5}  a\n".encode(), f"{SHA256}  a\n\n{SHA256}  ./a".encode()]
    given = {"path": "a", "expected": "crc32:d87f7e0c", "mode": "fail", "output": "data"}
    assert STORLET.run(DATA, given, further=lists).output == DATA
    assert "expected: sha256 has two digests" in failure(
        *lists, path="a", expected=f"sha256:{OTHER}"
    )


def test_a_wanted_algorithm_decides_among_those_with_as_many_digits() -> None:
    lines = f"{digest('blake3', DATA)}  a\n".encode()
    ran = STORLET.run(DATA, {"path": "a", "algorithms": "blake3"}, further=[lines])
    assert json.loads(ran.output)["matches"] is True
    ran = STORLET.run(DATA, {"path": "a"}, further=[lines])
    assert json.loads(ran.output)["wrong"] == ["sha256"]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (b"", "manifest: 'a' is not there"),
        (f"{SHA256}  A\n".encode(), "manifest: 'a' is not there"),
        (f"{SHA256}  a\n{OTHER}  a\n".encode(), "line 2: 'a' is there with two digests"),
        (f"{SHA256}  a\nno list\n".encode(), "line 2: want a digest and a name"),
        (f"{SHA256}\n".encode(), "line 1: want a digest and a name"),
        (b"abc  a\n", "line 1: 3 digits: no digest of md5"),
        (f"MD5 (a) = {SHA256}\n".encode(), "line 1: 64 digits of md5: no digest"),
        (SHA256.encode() + b"  \xff\n", "line 1 is not UTF-8"),
        (SHA256.encode() + b"  " + b"a" * (64 << 10), "line 1 has more than 65536 bytes"),
    ],
)
def test_bad_lists_are_refused(lines: bytes, fault: str) -> None:
    assert fault in failure(lines, path="a")


def test_a_manifest_and_a_path_belong_together() -> None:
    assert "path: is the object's name in a manifest" in failure(path="a")
    assert "path: is the object's name in a manifest" in failure(b"")
