"""Source headers that may leave with a result: those that a rule names, except headers that do not
fit the result or belong to the cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.model import NEVER_PASS, NEVER_PASS_PREFIXES, Passes

EVERYTHING = Passes(("*",), ("*",))
_OWN = sorted({*NEVER_PASS, *(f"{prefix}x" for prefix in NEVER_PASS_PREFIXES)})


@pytest.mark.parametrize("name", _OWN)
def test_no_wildcard_passes_headers_that_never_pass(name: str) -> None:
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
def test_headers_that_never_pass(name: str) -> None:
    assert not EVERYTHING.allows_header(name)


def test_named_headers_pass() -> None:
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


def test_names_of_metadata_are_no_headers_nor_the_other_way_round() -> None:
    assert Passes(metadata=("etag",)).allows_metadata("Etag"), (
        "an item of metadata may be called so"
    )
    assert not Passes(metadata=("*",)).allows_header("last-modified")
    assert not Passes(headers=("*",)).allows_metadata("study")


@given(st.text(max_size=12))
def test_nothing_passes_unnamed(name: str) -> None:
    assert not Passes().allows_header(name)
    assert not Passes().allows_metadata(name)
