"""Keys of accounts and sandboxes: stable, of fixed length, and different for different names."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_middleware.keys import sandbox_key, tenant_key

#: Account names hold no NUL, which separates the parts of a key.
PARTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)


@given(account=PARTS, trust_class=PARTS, image=PARTS)
def test_keys_are_hexadecimal_and_of_fixed_length(
    account: str, trust_class: str, image: str
) -> None:
    assert re.fullmatch("[0-9a-f]{32}", tenant_key(account))
    assert re.fullmatch("[0-9a-f]{16}", sandbox_key(account, trust_class, image))


def test_keys_are_the_same_in_all_releases() -> None:
    """Directories and sandboxes of an earlier release are found by their keys."""
    assert tenant_key("AUTH_test") == "332ea4fb680e67c2c5745b288e9acc7f"
    assert sandbox_key("AUTH_test", "user", "image") == "733b43449242879d"


@given(st.lists(st.tuples(PARTS, PARTS, PARTS), unique=True, min_size=2, max_size=6))
def test_different_parts_have_different_keys(parts: list[tuple[str, str, str]]) -> None:
    assert len({sandbox_key(*each) for each in parts}) == len(parts)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Names that share a prefix, as truncated names would.
        (("AUTH_" + "a" * 64 + "b", "user", "i"), ("AUTH_" + "a" * 64 + "c", "user", "i")),
        # The same characters, divided otherwise.
        (("AUTH_a", "12", "i"), ("AUTH_a1", "2", "i")),
        (("AUTH_a", "1", "2"), ("AUTH_a", "12", "")),
    ],
)
def test_similar_parts_have_different_keys(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert sandbox_key(*one) != sandbox_key(*other)
    pairs = itertools.combinations({one[0], other[0]}, 2)
    assert all(tenant_key(a) != tenant_key(b) for a, b in pairs)
