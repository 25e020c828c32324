"""Bundles against the languages, limits and API version of a cluster."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware import names
from storlet_middleware.catalog import bundle_check
from storlet_middleware.catalog.bundle_check import BundleChecker
from storlet_middleware.errors import BundleInvalid, InternalError, NodeBusy
from storlet_middleware.wsgi.strings import wsgi
from tests.support.bundles import bundle, tool
from tests.unit.middleware.support import ACCOUNT, make_config


def check(path: Path, data: bytes, name: str = "tool", **options: str) -> bundle_check.Checked:
    with (path / "packed").open("w+b") as packed:
        packed.write(data)
        return BundleChecker(make_config(path, **options)).check(ACCOUNT, name, packed)


def test_facts_of_a_valid_bundle(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "limits": {"memory": "32M"},
        "parameters": {"a": {"type": "string", "help": "text"}},
        "inputs": {"types": ["text/*"]},
        "records": "all",
        "outputs": {"count": 2, "types": ["text/csv", "image/png"]},
    }
    checked = check(tmp_path, tool("tool", **fields))
    assert checked.facts["main"] == "tool.Tool"
    assert checked.facts["limits"] == {"Memory": 32 << 20}
    assert checked.facts["parameters"] == {"a": {"type": "string"}}
    assert checked.facts["outputs"] == [2, 2]
    assert checked.facts["records"] == checked.metadata[names.META_RECORDS] == "all"
    assert checked.metadata[names.META_INPUT_TYPE] == "text/*"
    # A pipeline passes on the first output only.
    assert checked.metadata[names.META_OUTPUT_TYPE] == "text/csv"


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("a b", "'a b'"),
        ("\u6f22", "'\u6f22'"),
        ("a\nX-Delete-At: 1", None),
        ("a\r\n b", None),
        ("\x85", None),
        ("\u2028", None),
        ("x" * 300, None),
    ],
)
def test_metadata_has_what_swift_can_store_and_runs_have_all(
    tmp_path: Path, word: str, shown: str | None
) -> None:
    """A line break in a header makes Swift's proxy blame its nodes."""
    fields = {"language": "native", "main": "run", "files": ["run"], "arguments": [word]}
    checked = check(tmp_path, bundle("tool", {"run": (b"#!/bin/sh\n", 0o755)}, **fields))
    assert checked.facts["arguments"] == [word]
    found = checked.metadata.get(names.META_ARGUMENTS)
    assert found == (None if shown is None else wsgi(shown))


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"name": "other"}, "name: 'other': the object is tool.storlet"),
        ({"engine": ">=9"}, "engine: '>=9': this cluster has 1.0"),
        ({"language_version": "2.7"}, "language-version: '2.7'"),
        ({"outputs": {"count": 10}}, "outputs.count: 10: this cluster has at most 9"),
        ({"limits": {"memory": "900G"}}, "limits.memory: 900g is more than"),
        ({"limits": {"memory": "much"}}, "limits.memory: 'much': want a size"),
    ],
)
def test_bundle_that_does_not_fit_the_cluster_is_refused(
    tmp_path: Path, fields: dict[str, Any], part: str
) -> None:
    data = tool(**{"name": "tool", **fields})
    with pytest.raises(BundleInvalid, match=part):
        check(tmp_path, data)


def test_language_that_the_cluster_lacks_is_refused(tmp_path: Path) -> None:
    data = bundle("tool", {"a.jar": (b"", 0o644)}, language="java", main="a.B")
    with pytest.raises(BundleInvalid, match="language: 'java': this cluster has python"):
        check(tmp_path, data, storlet__languages="python:3.11")


def test_bounds_are_options(tmp_path: Path) -> None:
    with pytest.raises(BundleInvalid, match="at most 3 are allowed"):
        check(tmp_path, tool("tool"), limits__bundle_files="3")


@pytest.mark.usefixtures("real_processes")
def test_limits_of_the_process_end_a_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_check, "_CPU_SECONDS", 0)
    with pytest.raises((BundleInvalid, NodeBusy), match="exceeded"):
        check(tmp_path, tool("tool"))


def test_a_process_that_fails_is_our_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_check.child, "run", lambda *_: (1, b""))
    with pytest.raises(InternalError, match="ended with 1"):
        check(tmp_path, tool("tool"))


@pytest.mark.usefixtures("real_processes")
def test_the_server_does_not_read_the_bundle_itself(tmp_path: Path) -> None:
    """Only its process does: a bomb within the bounds costs the server nothing."""
    data = bundle("tool", {"tool.py": (bytes(100 << 20), 0o644)}, main="tool.Tool")
    before = resource.getrusage(resource.RUSAGE_SELF)
    check(tmp_path, data, limits__bundle_ratio="2000")
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 0.2
