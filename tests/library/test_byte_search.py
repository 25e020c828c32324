"""The search of the C library finds what ``bytes.find`` finds."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("sql")
SEARCH: Any = shared("byte_search")
MOST = SEARCH.MOST_BYTES
#: Few different bytes, so that places are many and begin within each other.
BYTES = st.text(st.sampled_from("ab,\n\0é"), max_size=90).map(str.encode)


@given(block=BYTES, wanted=BYTES.filter(bool), start=st.integers(0, 90))
def test_places_are_those_of_the_interpreter(block: bytes, wanted: bytes, start: int) -> None:
    start = min(start, len(block))
    for each in (wanted, wanted[:1], wanted[:2], block[start : start + 5] or b"b"):
        assert SEARCH.Search(block, each).after(start) == block.find(each, start)


@given(st.integers(0, 2 * MOST), st.integers(0, 300))
def test_a_place_at_the_end_is_found(size: int, before: int) -> None:
    wanted = b"," + b"k" * size
    block = b"k," * before + wanted
    assert SEARCH.Search(block, wanted).after(0) == block.find(wanted)
    assert SEARCH.Search(block[:-1], wanted).after(0) == block[:-1].find(wanted)


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The arguments of the calls of the C library."""
    found: list[int] = []
    real = SEARCH._FIND

    def counted(address: int, wanted: bytes) -> int | None:
        found.append(address)
        place: int | None = real(address, wanted)
        return place

    monkeypatch.setattr(SEARCH, "_FIND", counted)
    return found


@pytest.mark.parametrize(("block", "wanted", "is_by_library"), [
    (b"1,keep\n", b",keep", True),
    (b"1,drop\n", b",keep", True),
    (b"1,keep\n" * 20, b"k" * MOST, True),
    (b"1,keep\n" * 20, b"k" * (MOST + 1), False),
    (b"1,keep\n", b"k", False),
    (b"1,\0\n2,keep\n", b",keep", False),
    (b"1,a\0b\n", b"a\0b", False),
])  # fmt: skip
def test_the_library_gets_short_texts_without_zeros(
    addresses: list[int], block: bytes, wanted: bytes, is_by_library: bool
) -> None:
    assert SEARCH.Search(block, wanted).after(1) == block.find(wanted, 1)
    assert len(addresses) == is_by_library


def test_without_the_function_the_interpreter_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace())
    assert SEARCH._strstr() is None
    monkeypatch.setattr(SEARCH, "_FIND", None)
    assert SEARCH.Search(b"1,keep\n", b",keep").after(0) == 1
