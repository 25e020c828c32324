"""Bundles: the same files give the same bytes, and no hostile zip is accepted."""

from __future__ import annotations

import io
import random
import resource
import warnings
import zipfile

import pytest

from storlet_client.bundle import archive
from storlet_client.bundle.archive import Bounds, BundleError, verify
from tests.unit.client.bundle.hostile import (
    CASES,
    CORPUS,
    DOCUMENT,
    FILES,
    entry,
    good,
    with_entry,
    with_tests,
)

#: The same sequence in every session.
RANDOM = random.Random(7)  # noqa: S311  no secret


def test_a_bundle_that_was_written_is_valid() -> None:
    verified = verify(io.BytesIO(good()), Bounds())
    assert verified.manifest["name"] == "thumb"
    assert {file.path for file in verified.files} == {
        "storlet.json", "code/thumb.py", "code/lib/x.py"
    }  # fmt: skip


def test_test_cases_have_all_of_their_files_or_none() -> None:
    files = {"in": b"1", "out": b"2"}
    verified = verify(io.BytesIO(with_tests(**files)), Bounds())
    assert {"tests/in", "tests/out"} <= {file.path for file in verified.files}
    assert verify(io.BytesIO(with_tests()), Bounds()).manifest["tests"] == CASES


def test_the_same_files_give_the_same_bytes_in_any_order() -> None:
    out = io.BytesIO()
    archive.write(out, dict(reversed(DOCUMENT.items())), dict(reversed(FILES.items())))
    assert out.getvalue() == good()


def test_a_bundle_without_its_source_is_that_of_an_older_release() -> None:
    document = {**DOCUMENT, "tests": CASES}
    tests = {"tests/in": (b"1", 0o644), "tests/out": (b"2", 0o644)}
    out, older = io.BytesIO(), io.BytesIO()
    source = {"source/README.md": (b"#", 0o644), "source/make.sh": (b"exit", 0o755)}
    archive.write(out, document, FILES, ("helper==1",), {**tests, **source})
    archive.write(older, document, FILES, ("helper==1",), tests)
    verified = verify(out, Bounds())
    assert {"source/README.md", "source/make.sh"} <= {file.path for file in verified.files}
    assert archive.without_source(out.getvalue()) == older.getvalue()
    assert archive.without_source(older.getvalue()) == older.getvalue()
    assert archive.without_source(b"no zip") == b"no zip"


def test_files_that_are_compressed_already_are_stored() -> None:
    out = io.BytesIO()
    archive.write(out, DOCUMENT, {**FILES, "a.JAR": (b"0" * 999, 0o644), "b": (b"0" * 999, 0o644)})
    with zipfile.ZipFile(out) as zipped:
        methods = {info.filename: info.compress_type for info in zipped.infolist()}
    assert methods["code/a.JAR"] == zipfile.ZIP_STORED
    assert methods["code/b"] == zipfile.ZIP_DEFLATED
    verify(out, Bounds())


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_bundle_is_refused(name: str) -> None:
    make, part = CORPUS[name]
    with pytest.raises(BundleError, match=part):
        verify(io.BytesIO(make()), Bounds())


def test_duplicate_names_are_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = with_entry(entry("code/thumb.py"), b"another")
    with pytest.raises(BundleError, match="in the zip twice"):
        verify(io.BytesIO(data), Bounds())


def test_all_faults_are_reported_at_once() -> None:
    out = io.BytesIO(with_entry(entry("/a")))
    with zipfile.ZipFile(out, "a") as packed:
        packed.writestr(entry("code/../b"), b"")
    with pytest.raises(BundleError) as refused:
        verify(out, Bounds())
    assert len(refused.value.faults) == 2


def test_many_faults_are_counted() -> None:
    out = io.BytesIO(good())
    with zipfile.ZipFile(out, "a") as packed:
        for number in range(100):
            packed.writestr(entry(f"/{number}"), b"")
    with pytest.raises(BundleError, match="80 more faults"):
        verify(out, Bounds())


@pytest.mark.parametrize(
    ("bounds", "part"),
    [
        (Bounds(packed_bytes=100), "at most 100 are allowed"),
        (Bounds(unpacked_bytes=100), "bytes unpacked"),
        (Bounds(entries=3), "4 files"),
    ],
)
def test_bundle_beyond_a_bound_is_refused(bounds: Bounds, part: str) -> None:
    with pytest.raises(BundleError, match=part):
        verify(io.BytesIO(good()), bounds)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    data = with_entry(entry("code/zeros"), bytes(64 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with pytest.raises(BundleError, match="times as large"):
        verify(io.BytesIO(data), Bounds())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 0.1


def test_entry_that_unpacks_to_more_than_its_header_states_is_refused() -> None:
    data = bytearray(with_entry(entry("code/zeros"), bytes(1000)))
    for magic, offset in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        at = data.rindex(magic) + offset
        data[at : at + 4] = (10).to_bytes(4, "little")
    with pytest.raises(BundleError):
        verify(io.BytesIO(bytes(data)), Bounds())


def test_python_bundle_needs_the_module_of_main() -> None:
    out = io.BytesIO()
    archive.write(out, {**DOCUMENT, "main": "other.Thumb"}, FILES)
    with pytest.raises(BundleError, match=r"code/other\.py is missing"):
        verify(out, Bounds())


def test_java_bundle_has_its_jars_in_one_folder() -> None:
    document = {**DOCUMENT, "language": "java", "main": "org.example.Thumb"}
    for files, part in (({"a/b.jar": (b"x", 0o644)}, "directly below"), ({}, "no jar")):
        out = io.BytesIO()
        archive.write(out, document, files)
        with pytest.raises(BundleError, match=part):
            verify(out, Bounds())
    out = io.BytesIO()
    archive.write(out, document, {"b.jar": (b"x", 0o644), "a.jar": (b"y", 0o644)})
    assert verify(out, Bounds()).archives == ["a.jar", "b.jar"]


def test_bytes_that_were_changed_anywhere_never_give_another_content() -> None:
    data = good()
    expected = verify(io.BytesIO(data), Bounds())

    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(RANDOM.choice((1, 1, 2, 8))):
            changed[RANDOM.randrange(len(changed))] = RANDOM.randrange(256)
        try:
            found = verify(io.BytesIO(bytes(changed)), Bounds())
        except BundleError:
            continue
        assert found == expected  # a time, or another field without effect
