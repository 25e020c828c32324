"""``std:archive-pack`` packs what ``zipfile`` and ``tarfile`` unpack again, or fails."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_daemon.author import services
from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("archive-pack")
FORMATS, LISTING = shared("pack_formats"), shared("pack_listing")
TIME = "2026-07-01T12:30:41.123450"
PAGE = 3
SAMPLE = {
    "notes/b": b"hello" * 1000, "notes/folder/": b"", "notes/folder/" + "x" * 150: b"long",
    "notes/שלום": b"", "notes/z": os.urandom(3000),
}  # fmt: skip


@dataclass
class Store:
    """A container in memory, as the channel of a run."""

    objects: dict[str, bytes]
    change: Callable[[dict[str, bytes]], object] = lambda _objects: None
    knows_sizes: bool = True
    asked: list[str] = field(default_factory=list)
    _sent: dict[int, int] = field(default_factory=dict)

    def ask(self, operation: str, fields: Mapping[str, Any]) -> services.Answer:
        number = len(self.asked)
        self.asked.append(operation)
        if operation == "list":
            chosen = [
                name
                for name in sorted(self.objects)
                if name.startswith(fields.get("prefix", "")) and name > fields.get("marker", "")
            ]
            page = [self._entry(name) for name in chosen[:PAGE]]
            return self._answer(number, json.dumps(page).encode(), {}, len(chosen) > PAGE)
        data = self.objects.get(fields["path"].removeprefix("/c/"))
        if data is None:
            raise services.error_of(f"{fields['path']}: not found", "object.not_found", 404)
        answer = self._answer(
            number, data, {"etag": "e", **({"size": len(data)} if self.knows_sizes else {})}
        )
        self.change(self.objects)
        return answer

    def _entry(self, name: str) -> dict[str, Any]:
        data = self.objects[name]
        return {"name": name, "bytes": len(data), "hash": data.hex(), "last_modified": TIME}

    def _answer(
        self, number: int, data: bytes, facts: dict[str, Any], has_more: bool = False
    ) -> services.Answer:  # fmt: skip
        self._sent[number] = len(data)
        fd = os.memfd_create("stream")
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(data)
        os.lseek(fd, 0, os.SEEK_SET)
        return services.Answer(number, facts, fd, has_more)

    def further_answer(self, answer: services.Answer) -> services.Answer:
        raise AssertionError("nothing is called")

    def end_of(self, answer: services.Answer) -> int:
        return self._sent[answer.id]


def packed(store: Store, data: bytes = b"", **given_: str) -> bytes:
    services.begin(store)
    try:
        ran = STORLET.run(data, {"container": "c", **given_})
    finally:
        services.end()
    kind = "application/x-tar" if given_.get("format") == "tar" else "application/zip"
    assert ran.metadata == {"Content-Type": kind}
    return ran.output


def failure(store: Store, data: bytes = b"", **given_: str) -> str:
    with pytest.raises((LISTING.PackError, services.ServiceError)) as caught:
        packed(store, data, **given_)
    return str(caught.value)


def unzipped(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        assert file.testzip() is None
        return {name: file.read(name) for name in file.namelist()}


def untarred(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        return {
            member.name + "/" * member.isdir(): data.read()
            if (data := file.extractfile(member))
            else b""
            for member in file
        }


def test_a_zip_has_names_data_times_and_modes() -> None:
    archive = packed(Store(SAMPLE))
    assert unzipped(archive) == SAMPLE
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        first, folder = file.infolist()[:2]
    assert (first.date_time, first.external_attr >> 16) == ((2026, 7, 1, 12, 30, 40), 0o100644)
    assert (first.compress_type, first.compress_size < 100) == (zipfile.ZIP_DEFLATED, True)
    assert folder.is_dir()
    stored = packed(Store(SAMPLE), compress="false")
    assert unzipped(stored) == SAMPLE
    with zipfile.ZipFile(io.BytesIO(stored)) as file:
        assert {member.compress_type for member in file.infolist()} == {zipfile.ZIP_STORED}
    assert packed(Store(SAMPLE)) == archive


def test_a_tar_has_names_data_times_and_modes() -> None:
    archive = packed(Store(SAMPLE), format="tar")
    assert untarred(archive) == SAMPLE
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        member = file.next()
    assert member is not None
    assert (member.mtime, member.mode, member.isreg()) == (1_782_909_041, 0o644, True)


@given(
    objects=st.dictionaries(
        st.text("ab/-שx.", min_size=1, max_size=12), st.binary(max_size=50), min_size=1, max_size=8
    ),
    prefix=st.sampled_from(["", "a", "a/"]),
    names=st.sampled_from(["full", "relative"]),
    form=st.sampled_from(["zip", "tar"]),
)
def test_an_archive_has_all_objects_or_there_is_none(
    objects: dict[str, bytes], prefix: str, names: str, form: str
) -> None:
    chosen = {name: data for name, data in objects.items() if name.startswith(prefix)}
    cut = len(prefix) if names == "relative" else 0
    try:
        archive = packed(Store(objects), prefix=prefix, names=names, format=form)
    except LISTING.PackError:
        return
    found = (unzipped if form == "zip" else untarred)(archive)
    assert found == {name[cut:]: data for name, data in chosen.items() if name[cut:]}


@pytest.mark.parametrize("form", ["zip", "tar"])
@pytest.mark.parametrize(
    "change",
    [
        lambda objects: objects.update({"notes/z": b"another"}),
        lambda objects: objects.update({"notes/zz": b"new"}),
        lambda objects: objects.update({"notes/0": b"new"}),
        lambda objects: objects.pop("notes/b", None),
    ],
    ids=["changed", "added", "added before", "deleted"],
)
def test_objects_that_change_while_they_are_packed_are_an_error(
    form: str, change: Callable[[dict[str, bytes]], object]
) -> None:
    seen: list[bool] = []

    def change_at_the_last(objects: dict[str, bytes]) -> None:
        seen.append(True)
        # All pages of the first listing were read by then.
        if len(seen) == 4:
            change(objects)

    store = Store(dict(SAMPLE), change_at_the_last)
    assert "added, changed or deleted while" in failure(store, format=form)


def test_an_object_that_was_deleted_is_an_error() -> None:
    gone = "notes/folder/" + "x" * 150
    store = Store(dict(SAMPLE), lambda objects: objects.pop(gone, None))
    assert f"/c/{gone}: not found" in failure(store)


def test_a_stream_that_is_short_is_an_error() -> None:
    for form in ("zip", "tar"):
        store = Store(SAMPLE)
        store.end_of = lambda _answer: 10**6  # type: ignore[method-assign]
        with pytest.raises(OSError, match="bytes arrived"):
            packed(store, format=form)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("/etc/passwd", "'//'"), ("../x", "'..'"), ("a/../x", "'..'"), ("a/./x", "'.'"),
        ("a//x", "//"), ("a\\x", "a backslash"), ("a\nx", "a control character"),
        ("a\x9bx", "a control character"), ("C:x", "a drive"), ("a/", "//"),
    ],
)  # fmt: skip
def test_a_name_that_is_unsafe_to_unpack_is_an_error(name: str, fault: str) -> None:
    text = failure(Store({name: b"data"}))
    assert "as the name of a member it has" in text
    assert fault.strip("'") in text


def test_a_name_that_is_a_file_and_a_folder_is_an_error() -> None:
    for other in ("a/b", "a/"):
        objects = {"a": b"data", "a-b": b"", other: b""}
        assert failure(Store(objects)) == "'a' would be a file and a folder of the archive"
    assert "no character" in failure(Store({"a": b"x"}), prefix="a", names="relative")
    assert unzipped(packed(Store({"a/": b"", "a/b": b"x"}), prefix="a/", names="relative")) == {
        "b": b"x"
    }


def test_input_that_cannot_be_packed_is_refused_before_any_output() -> None:
    assert "has no object that begins with 'x'" in failure(Store(SAMPLE), prefix="x")
    assert "the input is not empty" in failure(Store(SAMPLE), b"data")
    assert "want the name of a container" in failure(Store(SAMPLE), container="c/notes")


def test_an_object_of_unknown_size_is_packed_into_a_zip_only() -> None:
    store = Store(SAMPLE, knows_sizes=False)
    assert unzipped(packed(store)) == SAMPLE
    assert "its size is not known before its data" in failure(store, format="tar")


def test_more_members_than_the_limit_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LISTING, "MOST_MEMBERS", 4)
    assert failure(Store(SAMPLE)) == "there are more than 4 objects"


def test_large_members_and_many_of_them_are_zip64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 3)
    archive = packed(Store(SAMPLE), compress="false")
    monkeypatch.undo()
    # The locator of the directory; members are large, or begin behind a large one.
    assert archive.count(b"PK\x06\x07") == 1
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        assert {member.extract_version for member in file.infolist()} == {45}
    assert unzipped(archive) == SAMPLE
