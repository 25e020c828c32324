"""The model: headers and metadata that a result keeps, and equality of rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.model import NEVER_PASS, NEVER_PASS_PREFIXES, Allow, Operator, Passes, Place, Rule, Test

WILDCARDS = Passes(("*",), ("*",))
_OWN = sorted({*NEVER_PASS, *(f"{prefix}x" for prefix in NEVER_PASS_PREFIXES)})


@pytest.mark.parametrize("name", _OWN)
def test_no_wildcard_matches_a_header_that_never_passes(name: str) -> None:
    wildcards = tuple(f"{name[:length]}*" for length in range(len(name) + 1))
    for written in (name, name.title(), name.upper(), name.replace("-", "_"), f" {name}"):
        assert not Passes(headers=(*wildcards, name)).allows_header(written)


@pytest.mark.parametrize(
    "name",
    [
        "ETag",
        "Content-Length",
        "Content-MD5",
        "Content-Range",
        "X-Object-Sysmeta-Slo-Etag",
        "X-Object-Transient-Sysmeta-Crypto-Meta",
        "X-Object-Meta-Classification",
        "X-Backend-Timestamp",
        "X-Static-Large-Object",
        "X-Symlink-Target-Account",
    ],
)
def test_headers_that_describe_the_source_never_pass(name: str) -> None:
    assert not WILDCARDS.allows_header(name)


def test_named_items_pass() -> None:
    passes = Passes(("project", "x-*"), ("last-modified", "content-d*"))
    assert [
        each
        for each in ("Project", "projects", "X-Ray", "x-", "x", "")
        if passes.allows_metadata(each)
    ] == [
        "Project",
        "X-Ray",
        "x-",
    ]
    headers = ("Last-Modified", "Content-Disposition", "Content-Type", "project", "")
    assert [each for each in headers if passes.allows_header(each)] == [
        "Last-Modified",
        "Content-Disposition",
    ]


def test_metadata_and_headers_are_named_separately() -> None:
    assert Passes(metadata=("etag",)).allows_metadata("Etag"), "user metadata may have this name"
    assert not Passes(metadata=("*",)).allows_header("last-modified")
    assert not Passes(headers=("*",)).allows_metadata("study")


@given(st.text(max_size=12))
def test_without_names_nothing_passes(name: str) -> None:
    assert not Passes().allows_header(name)
    assert not Passes().allows_metadata(name)


def test_the_place_in_the_text_does_not_distinguish_values() -> None:
    one, other = (Test("user", Operator.EXACT, "a", place=Place(line, 1)) for line in (1, 2))
    assert one == other
    assert hash(one) == hash(other)
    assert Rule("r", one, Allow(), place=Place(1)) == Rule("r", other, Allow(), place=Place(2))
    assert Rule("r", one, Allow()) != Rule("s", one, Allow())
