"""The ETag of a framed answer."""

from __future__ import annotations

import pytest

from storlet_middleware.backend import framed_etag


@pytest.mark.parametrize("source", ["7265f4d2", '"7265f4d2"'])
def test_an_etag_names_its_node_and_its_source_and_is_unique(source: str) -> None:
    made = {framed_etag.make("node-1.example", source) for _ in range(10)}
    assert len(made) == 10
    for etag in (*made, f'"{made.pop()}"'):
        assert framed_etag.read(etag) == ("node-1.example", "7265f4d2")


@pytest.mark.parametrize("etag", ["", "b74a60b469c59b2bab2c6c61e8fa6e81", "a/b", "a/b/c/d"])
def test_an_etag_of_another_form_names_neither(etag: str) -> None:
    assert framed_etag.read(etag) == ("", "")


def test_a_source_without_an_etag_or_with_a_slash_in_it_leaves_the_node_readable() -> None:
    assert framed_etag.read(framed_etag.make("n", "")) == ("n", "")
    assert framed_etag.read(framed_etag.make("n", "a/b")) == ("n", "ab")
