"""The author's view of the store: files that verify their end, seeks, listings, exceptions."""

from __future__ import annotations

import io
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.author import services

DATA = bytes(range(256)) * 4000


class Store:
    """A :class:`services.Channel` with one object, ``/c/o``."""

    def __init__(self, data: bytes = DATA) -> None:
        self.data = data
        self.facts: dict[str, Any] = {"size": len(data), "etag": "e1", "metadata": {"k": "v"}}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.short_by = 0
        self.pages: list[list[dict[str, Any]]] = []
        self._sent: dict[int, int] = {}

    def ask(self, operation: str, fields: Mapping[str, Any]) -> services.Answer:
        given = {key: value for key, value in fields.items() if value is not None}
        self.asked.append((operation, given))
        number = len(self.asked)
        if operation == "stat":
            return services.Answer(number, self.facts)
        if operation == "list":
            page = self.pages.pop(0)
            return self._stream(number, json.dumps(page).encode(), {}, has_more=bool(self.pages))
        if given.get("etag", self.facts["etag"]) != self.facts["etag"]:
            raise services.error_of("replaced", "services.changed", 412)
        start, end = given.get("start", 0), given.get("end", len(self.data) - 1)
        part = self.data[start : end + 1]
        size = None if self.facts["size"] is None else len(part)
        return self._stream(number, part, {**self.facts, "size": size})

    def _stream(
        self, number: int, data: bytes, facts: dict[str, Any], *, has_more: bool = False
    ) -> services.Answer:
        self._sent[number] = len(data)
        fd = os.memfd_create("stream")
        os.write(fd, data[: len(data) - self.short_by])
        os.lseek(fd, 0, os.SEEK_SET)
        return services.Answer(number, facts, fd, has_more)

    def end_of(self, answer: services.Answer) -> int:
        return self._sent[answer.id]


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    services.begin(store)
    yield store
    services.end()


def test_an_object_is_read_whole_with_one_request(store: Store) -> None:
    with services.open("/c/o") as file:
        assert (file.size, file.etag, file.metadata) == (len(DATA), "e1", {"k": "v"})
        assert file.read() == DATA
        assert file.read() == b""
    assert store.asked == [("open", {"path": "/c/o"})]


def test_a_stream_that_is_short_is_an_error_and_no_end(store: Store) -> None:
    store.short_by = 1
    with services.open("/c/o") as file, pytest.raises(services.ServiceError, match="bytes arrived"):
        file.read()


def test_a_seek_reads_a_part_of_the_version_that_was_opened(store: Store) -> None:
    with services.open("/c/o") as file:
        file.read(10)
        assert file.seek(-300, os.SEEK_END) == len(DATA) - 300
        assert file.read() == DATA[-300:]
        assert file.seek(5) == 5
        assert file.read(7) == DATA[5:12]
        assert file.tell() == 12
        assert file.seek(len(DATA) + 5) == len(DATA) + 5
        assert file.read() == b""
    asked = [fields for name, fields in store.asked if "etag" in fields]
    assert {fields["etag"] for fields in asked} == {"e1"}
    taken = sum(fields["end"] - fields["start"] + 1 for fields in asked)
    assert taken < len(DATA) // 2


def test_bytes_of_two_versions_are_never_mixed(store: Store) -> None:
    with services.open("/c/o") as file:
        file.read(10)
        store.facts["etag"] = "e2"
        file.seek(900_000)
        with pytest.raises(services.Changed):
            file.read(1)


def test_any_order_of_reads_and_seeks_gives_the_bytes_of_the_object(store: Store) -> None:
    expected = io.BytesIO(DATA)
    with services.open("/c/o") as file:
        for step in range(1, 60):
            place = step * 7919 * 131 % len(DATA)
            count = step * step * 37
            assert file.seek(place) == expected.seek(place)
            assert file.read(count) == expected.read(count)
        assert file.read() == expected.read()


def test_a_short_way_forward_is_read_and_not_requested(store: Store) -> None:
    with services.open("/c/o") as file:
        file.read(300_000)
        file.seek(600_000)
        assert file.read(4) == DATA[600_000:600_004]
    assert len(store.asked) == 1


def test_a_range_is_a_file_of_its_own(store: Store) -> None:
    with services.open("/c/o", (100, 199)) as file:
        assert file.size == 100
        assert file.read() == DATA[100:200]
        file.seek(90)
        assert file.read() == DATA[190:200]
    assert store.asked[-1][1]["start"] == 190


def test_a_file_without_a_known_size_cannot_seek(store: Store) -> None:
    store.facts["size"] = None
    with services.open("/c/o") as file:
        assert not file.seekable()
        with pytest.raises(io.UnsupportedOperation):
            file.seek(5)
        assert file.read() == DATA


def test_a_listing_continues_after_the_last_name_of_a_page(store: Store) -> None:
    store.pages = [
        [{"name": "a", "bytes": 1, "hash": "h"}, {"subdir": "b/"}],
        [{"name": "c", "bytes": 2, "hash": ""}],
    ]
    found = list(services.list("/c/", prefix="x", reverse=True))
    assert [(entry.name, entry.size, entry.etag, entry.is_prefix) for entry in found] == [
        ("a", 1, "h", False),
        ("b/", None, None, True),
        ("c", 2, None, False),
    ]
    assert [fields.get("marker") for _, fields in store.asked] == [None, "b/"]
    assert store.asked[0][1] == {"container": "c", "prefix": "x", "reverse": True}


def test_a_limit_of_a_listing_ends_it(store: Store) -> None:
    store.pages = [[{"name": "a"}, {"name": "b"}], [{"name": "c"}], [{"name": "d"}]]
    assert [entry.name for entry in services.list("c", limit=3)] == ["a", "b", "c"]
    assert [fields["limit"] for _, fields in store.asked] == [3, 1]
    assert list(services.list("c", limit=0)) == []


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("input.not_found", 404, services.NotFound),
        ("access.rule", 403, services.Denied),
        ("access.denied", 401, services.Denied),
        ("services.changed", 412, services.Changed),
        ("storlet.limit.services", 422, services.LimitExceeded),
        ("node.busy", 503, services.Unavailable),
        ("tenant.busy", 429, services.Unavailable),
        ("swift.refused", 413, services.ServiceError),
    ],
)
def test_each_failure_has_its_exception(
    code: str, status: int, kind: type[services.ServiceError]
) -> None:
    error = services.error_of("why", code, status)
    assert type(error) is kind
    assert (error.code, error.status, str(error)) == (code, status, "why")


def test_without_a_run_with_services_the_reason_is_named() -> None:
    for use in (lambda: services.open("/c/o"), lambda: services.stat("/c/o")):
        with pytest.raises(services.Denied, match="X-Object-Meta-Storlet-Services"):
            use()


def test_the_end_of_a_run_closes_its_files() -> None:
    services.begin(Store())
    before = len([*Path("/proc/self/fd").iterdir()])
    file = services.open("/c/o")
    services.end()
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    file.close()


# --- objects that are created ---------------------------------------------------------------------


class Writing:
    """A :class:`services.Channel` that takes the bytes of one created object."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.reading, theirs = socket.socketpair()
        self.reading.settimeout(5)
        self._theirs = theirs.detach()
        self.refusals: dict[str, services.ServiceError] = {}

    def ask(self, operation: str, fields: Mapping[str, Any]) -> services.Answer:
        self.asked.append((operation, {k: v for k, v in fields.items() if v is not None}))
        if operation in self.refusals:
            raise self.refusals[operation]
        return services.Answer(7, {}, self._theirs if operation == "create" else -1)

    def end_of(self, answer: services.Answer) -> int:
        raise AssertionError

    @property
    def content(self) -> bytes:
        with self.reading.makefile("rb") as stream:
            return stream.read()


@pytest.fixture
def writing() -> Iterator[Writing]:
    made = Writing()
    services.begin(made)
    yield made
    services.end()
    made.reading.close()


def test_a_created_object_is_closed_with_its_length(writing: Writing) -> None:
    with services.create("/c/o", "text/x", {"k": "v"}, 60) as file:
        assert file.write(b"hel") == 3
        file.writelines([b"l", b"o"])
        assert not file.seekable()
        with pytest.raises(io.UnsupportedOperation):
            file.fileno()
    assert writing.content == b"hello"
    file.close()
    headers = {"content_type": "text/x", "metadata": {"k": "v"}, "delete_after": 60}
    assert writing.asked == [
        ("create", {"path": "/c/o", **headers}),
        ("close", {"file": 7, "bytes": 5}),
    ]
    with pytest.raises(ValueError, match="closed"):
        file.write(b"more")


def test_a_created_object_needs_a_path_only(writing: Writing) -> None:
    services.create("/c/o").close()
    assert writing.asked == [("create", {"path": "/c/o"}), ("close", {"file": 7, "bytes": 0})]


def test_a_block_that_an_exception_leaves_discards_its_object(writing: Writing) -> None:
    file = services.create("/c/o")

    def fail() -> None:
        with file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [name for name, _ in writing.asked] == ["create", "discard"]
    assert file.closed


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_file_that_is_dropped_is_not_closed(writing: Writing, *, is_ended: bool) -> None:
    """An exception drops a file, too, and then it is not complete."""
    file = services.create("/c/o")
    file.write(b"x" * 10)
    file.write(b"x" * 10)
    if is_ended:
        services.end()
    else:
        del file
    assert [name for name, _ in writing.asked] == ["create"]
    assert writing.reading.recv(100) == b"x" * 10
    assert writing.reading.recv(100) == b""


@pytest.mark.parametrize("operation", ["write", "close"])
def test_the_reason_of_a_refusal_is_that_of_the_store(writing: Writing, operation: str) -> None:
    refusal = services.error_of("rule r: no", "access.rule", 403)
    writing.refusals["close"] = refusal
    file = services.create("/c/o")
    if operation == "write":
        writing.reading.close()
        with pytest.raises(services.Denied, match="rule r: no"):
            file.write(b"x" * 100_000)
    with pytest.raises(services.Denied, match="rule r: no"):
        file.close()
    assert file.closed
    file.close()
    file.discard()
    assert writing.asked[-1] == ("discard", {"file": 7})


def test_a_stream_that_ends_without_a_reason_is_an_error(writing: Writing) -> None:
    file = services.create("/c/o")
    writing.reading.close()
    with pytest.raises(services.ServiceError, match="takes no more bytes"):
        file.write(b"x" * 100_000)
    file.discard()


def test_an_exception_of_a_block_is_not_hidden_by_the_store(writing: Writing) -> None:
    writing.refusals["discard"] = services.error_of("gone", "services.gone", 503)
    with pytest.raises(KeyError), services.create("/c/o"):
        raise KeyError
