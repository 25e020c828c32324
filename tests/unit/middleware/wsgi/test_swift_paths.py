"""The objects that paths in Swift denote."""

from __future__ import annotations

import pytest
from swift.common.middleware.versioned_writes.legacy import VersionedWritesContext

from storlet_middleware.wsgi.swift_paths import (
    SwiftPath,
    archived_name,
    may_be_archived,
    parse_path,
    parse_url,
)


@pytest.mark.parametrize(
    "name", ["o", "a/b c", "é", "x" * 200, "y" * 4095, "z" * 5000, "1640995200.00000"]
)
def test_names_of_archived_versions_are_recognised(name: str) -> None:
    raw = name.encode().decode("latin-1")
    made = VersionedWritesContext(None, None)._build_versions_object_name(raw, 1640995200)
    archived = made.encode("latin-1").decode()
    assert archived_name(archived) == name
    encoded = archived.encode()
    for end in range(0, len(encoded), 1 + len(encoded) // 50):
        assert may_be_archived(encoded[:end].decode("utf-8", "surrogateescape"))
    assert may_be_archived(archived)


@pytest.mark.parametrize(
    "name",
    ["", "o", "001o", "001o/", "001o/now", "002o/1640995200.00000", "00Ao/1640995200.00000",
     "1o/1640995200.00000", "000/1640995200.00000", "001o/1640995200.00000/1",
     "001o/1640995200.0000", "xyzo/1640995200.00000"],
)  # fmt: skip
def test_names_of_other_objects_are_not_taken_for_archived_versions(name: str) -> None:
    assert archived_name(name) is None


@pytest.mark.parametrize("prefix", ["seg", "001ox", "002o/x/", "001o/x", "x", "000/"])
def test_prefixes_that_no_archived_version_has_are_recognised(prefix: str) -> None:
    assert not may_be_archived(prefix)


def test_paths_are_decoded_to_text() -> None:
    assert parse_path("/v1/AUTH_a/c/d/\u00c3\u00a9") == SwiftPath("v1", "AUTH_a", "c", "d/é")
    assert parse_path("/v1/AUTH_a/c") == SwiftPath("v1", "AUTH_a", "c")
    assert parse_url("/v1/AUTH_a/c/%C3%A9%3F?version-id=1") == SwiftPath("v1", "AUTH_a", "c", "é?")
    for path in ("/info", "", "/v1", "/v1/", "/v1/AUTH_a//o", "/auth/v1.0", "/v1/AUTH_a/c/\u00c3"):
        assert parse_path(path) is None
    for url in ("", "/v1/AUTH_a/c/%C3"):
        assert parse_url(url) is None
