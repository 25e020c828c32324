"""``std:fixity-bag`` reports what a slow reference finds in a bag, or fails."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_daemon.author import services
from tests.library.support import LibraryStorlet

STORLET, DIGESTS = LibraryStorlet("fixity-bag"), LibraryStorlet("fixity")
DECLARED = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
PAYLOAD = {"data/a": b"one", "data/sub/b c": b"two", "data/100%\n": b""}


@dataclass
class Store:
    """The objects below ``bag/`` in memory, as the channel of a run."""

    objects: dict[str, bytes]
    change: Callable[[dict[str, bytes]], object] = lambda _objects: None
    called: list[str] = field(default_factory=list)
    _sent: dict[int, int] = field(default_factory=dict)

    def ask(self, operation: str, fields: Mapping[str, Any]) -> services.Answer:
        if operation == "list":
            page = [
                {
                    "name": f"bag/{name}",
                    "bytes": len(data),
                    "hash": hashlib.sha256(data).hexdigest(),
                }
                for name, data in sorted(self.objects.items())
            ]
            return self._answer([{"name": "bag/", "bytes": 0}, *page])
        path = fields["path"]
        data = self.objects.get(path.removeprefix("/c/bag/"))
        if data is None:
            raise services.error_of(f"{path}: not found", "object.not_found", 404)
        if operation == "open":
            return self._answer(data, size=len(data), etag="e")
        assert fields["storlet"] == "std:fixity"
        self.called.append(path)
        self.change(self.objects)
        services.end()
        ran = DIGESTS.run(data, fields["parameters"])
        services.begin(self)
        return self._answer(ran.output)

    def _answer(self, content: Any, **facts: Any) -> services.Answer:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        number = len(self._sent)
        self._sent[number] = len(data)
        fd = os.memfd_create("stream")
        os.pwrite(fd, data, 0)
        return services.Answer(number, facts, fd, False)

    def further_answer(self, answer: services.Answer) -> services.Answer:
        raise AssertionError("no data is sent")

    def end_of(self, answer: services.Answer) -> int:
        return self._sent[answer.id]


def checked(store: Store, declared: bytes = DECLARED, **given_: str) -> dict[str, Any]:
    services.begin(store)
    try:
        ran = STORLET.run(declared, {"container": "c", "prefix": "bag", **given_})
    finally:
        services.end()
    assert ran.metadata == {"Content-Type": "application/json"}
    report: dict[str, Any] = json.loads(ran.output)
    return report


def encoded(name: str) -> str:
    return name.replace("%", "%25").replace("\n", "%0A")


def manifest(files: Mapping[str, bytes], algorithm: str) -> bytes:
    lines = [
        f"{hashlib.new(algorithm, data).hexdigest()}  {encoded(name)}\n"
        for name, data in files.items()
    ]
    return "".join(lines).encode()


def bag_of(payload: Mapping[str, bytes], **more: bytes) -> dict[str, bytes]:
    size = sum(map(len, payload.values()))
    tags = {
        "bagit.txt": DECLARED,
        "bag-info.txt": f"Source: x\r\npayload-oxum: {size}.{len(payload)}\r\n".encode(),
        "manifest-sha256.txt": manifest(payload, "sha256"),
        "manifest-md5.txt": manifest(payload, "md5"),
    }
    return {**payload, **tags, "tagmanifest-sha512.txt": manifest(tags, "sha512"), **more}


def test_a_valid_bag() -> None:
    store = Store(bag_of(PAYLOAD))
    assert checked(store) == {
        "valid": True, "objects": 7, "missing": [], "unlisted": [], "wrong": [], "faults": [],
        "bytes": sum(len(data) for name, data in store.objects.items() if "tagm" not in name),
    }  # fmt: skip
    assert len(store.called) == 7
    assert checked(store, mode="fail")["valid"]


def test_all_that_is_wrong_is_in_one_report() -> None:
    bag = bag_of(PAYLOAD)
    bag["data/a"] = b"ONE"
    del bag["data/100%\n"]
    bag["data/new"] = b"n"
    report = checked(Store(bag))
    digests = {name: hashlib.new(name, b"one").hexdigest() for name in ("md5", "sha256")}
    found = {name: hashlib.new(name, b"ONE").hexdigest() for name in digests}
    assert not report["valid"]
    assert report["missing"] == ["data/100%\n"]
    assert report["unlisted"] == ["data/new"]
    assert sorted(report["wrong"], key=lambda each: str(each["algorithm"])) == [
        {"path": "data/a", "algorithm": name, "expected": digests[name], "found": found[name]}
        for name in ("md5", "sha256")
    ]
    assert report["faults"] == [
        "bag-info.txt: Payload-Oxum is 6.3, and the payload has 7.3 (bytes.objects)"
    ]
    with pytest.raises(ValueError, match=r"not valid: .*100%.* is missing; .*; and 2 more$"):
        checked(Store(bag), mode="fail")


def test_another_tag_file_and_a_missing_one() -> None:
    bag = bag_of(PAYLOAD)
    bag["bag-info.txt"] += b"Note: changed\n"
    bag["tagmanifest-md5.txt"] = manifest({"lost.txt": b""}, "md5")
    report = checked(Store(bag))
    assert (report["missing"], report["unlisted"]) == (["lost.txt"], [])
    assert [each["path"] for each in report["wrong"]] == ["bag-info.txt"]


@pytest.mark.parametrize(("version", "unlisted"), [("0.97", []), ("1.0", ["data/sub/b c"])])
def test_each_manifest_has_the_payload_from_version_1_on(version: str, unlisted: list[str]) -> None:
    part = {name: data for name, data in PAYLOAD.items() if name != "data/sub/b c"}
    bag = bag_of(PAYLOAD)
    del bag["tagmanifest-sha512.txt"]
    bag["manifest-md5.txt"] = manifest(part, "md5")
    declared = DECLARED.replace(b"1.0", version.encode())
    assert checked(Store(bag), declared)["unlisted"] == unlisted


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("manifest-md6.txt", b"", "manifest-md6.txt: the algorithm is unknown"),
        ("manifest-sha1.txt", b"nothing", "manifest-sha1.txt: line 1: want a digest and a name"),
        ("manifest-sha1.txt", b"00  data/a", "line 1: 'data/a': want 40 digits of sha1"),
        ("manifest-md5.txt", b"0" * 32 + b" tag.txt", "the names of this manifest are below data/"),
        ("tagmanifest-md5.txt", b"0" * 32 + b" data/a", "this manifest are not below data/"),
        ("manifest-MD5.txt", b"0" * 32 + b" data/a", "'data/a': is there with two digests"),
        ("bag-info.txt", b"\xff", "bag-info.txt is not UTF-8"),
        ("bag-info.txt", b"Payload-Oxum: 1.1\nPayload-Oxum: 2.1\n", "two values of Payload-Oxum"),
        ("bag-info.txt", b"Payload-Oxum: 1,000.1\n", "Payload-Oxum: want BYTES.OBJECTS"),
        ("bag-info.txt", b"payload-oxum:\n", "Payload-Oxum: want BYTES.OBJECTS"),
        ("bag-info.txt", b"x" * ((1 << 20) + 1), "bag-info.txt has more than 1048576 bytes"),
    ],
)
def test_files_that_cannot_be_read(name: str, content: bytes, fault: str) -> None:
    bag = bag_of(PAYLOAD, **{name: content})
    del bag["tagmanifest-sha512.txt"]
    with pytest.raises(ValueError, match=fault.replace("(", "\\(")):
        checked(Store(bag))


@pytest.mark.parametrize(
    ("declared", "fault"),
    [
        (b"", "the input is no bagit.txt"),
        (DECLARED + b"More: x\n", "the input is no bagit.txt"),
        (DECLARED.replace(b"UTF-8", b"UTF-16"), "the encoding is 'UTF-16'"),
    ],
)
def test_objects_that_are_no_declaration(declared: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        checked(Store(bag_of(PAYLOAD)), declared)


def test_no_bag_and_no_manifest() -> None:
    with pytest.raises(ValueError, match=r"'/c/bag/bagit.txt' does not exist"):
        checked(Store({"other": b""}))
    with pytest.raises(ValueError, match=r"there is no manifest-ALGORITHM.txt"):
        checked(Store({"bagit.txt": DECLARED}))
    with pytest.raises(ValueError, match=r"want the name of a container"):
        checked(Store({}), container="c/bag")


@pytest.mark.parametrize("name", ["data/a", "data/later"])
def test_a_bag_that_changes(name: str) -> None:
    store = Store(bag_of(PAYLOAD), lambda objects: objects.update({name: b"changed"}))
    with pytest.raises(ValueError, match="the bag changed while it was checked, such as"):
        checked(store)


NAMES = st.text("ab%/. ", max_size=4).map(lambda text: f"data/{text}x")


@given(
    payload=st.dictionaries(NAMES, st.binary(max_size=3), max_size=4),
    damage=st.dictionaries(NAMES, st.one_of(st.none(), st.binary(max_size=3)), max_size=3),
)
def test_any_damage_is_found(payload: dict[str, bytes], damage: dict[str, bytes | None]) -> None:
    now = {name: data for name, data in {**payload, **damage}.items() if data is not None}
    tags = {name: data for name, data in bag_of(payload).items() if name not in payload}
    report = checked(Store({**now, **tags}))
    assert report["missing"] == sorted(payload.keys() - now.keys())
    assert report["unlisted"] == sorted(now.keys() - payload.keys())
    assert {each["path"] for each in report["wrong"]} == {
        name for name in payload.keys() & now.keys() if payload[name] != now[name]
    }
    sizes = [(sum(map(len, each.values())), len(each)) for each in (payload, now)]
    assert bool(report["faults"]) == (sizes[0] != sizes[1])
