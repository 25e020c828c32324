"""Globs: what they match, that no glob is slow, and that both of their forms mean the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules import glob
from rules.glob import ANY, MANY, OneOf
from tests.unit.rules import naive

_units = st.sampled_from(
    [
        "a",
        "b",
        "*",
        "?",
        "[ab]",
        "[!a]",
        "[a-c]",
        "[!b-c]",
        "[-a]",
        "[a-]",
        "[*]",
        "[[]",
        "-",
        "]",
        ".",
    ]
)
_globs = st.lists(_units, max_size=7).map("".join)
_names = st.text(alphabet="abc*[]-.\n", max_size=8)


@pytest.mark.parametrize(
    ("text", "matches", "differs"),
    [
        ("*.csv", ["a.csv", ".csv", "a/b.csv"], ["a.CSV", "a.csv ", "a.csv.gz"]),
        ("logs/*", ["logs/", "logs/a/b"], ["logs", "xlogs/a"]),
        ("a?c", ["abc", "a/c", "a\nc"], ["ac", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x", "abx"]),
        ("[!a-c]x", ["dx", "-x"], ["ax", "x"]),
        ("[]", [], []),
        ("a*b*a", ["aba", "abba", "axxbxxa"], ["aa", "ab", "abab"]),
        ("ab*ba", ["abba", "ab/ba"], ["aba"]),
        ("a.b", ["a.b"], ["axb"]),
        ("*[0-9].log*", ["x1.log", "2.log.gz"], ["x.log"]),
        ("?*é", ["xé"], ["é"]),
        ("*a?*?b*", ["axxb", "ccaxxbc"], ["axb", "ab"]),
        ("*ab*ab*", ["abab"], ["ab", "aab"]),
        ("*a*a*", ["aa"], ["a"]),
        ("", [""], ["a"]),
        ("**", ["", "x"], []),
    ],
)
def test_a_glob_matches_its_strings(text: str, matches: list[str], differs: list[str]) -> None:
    if not matches:
        if text == "[]":
            with pytest.raises(glob.GlobError):
                glob.matcher(text)
        return
    match = glob.matcher(text)
    assert [name for name in matches if not match(name)] == []
    assert [name for name in differs if match(name)] == []


@given(_globs, _names)
@settings(max_examples=30 * settings().max_examples)
def test_the_matcher_agrees_with_the_specification_of_the_format(text: str, name: str) -> None:
    assert glob.matcher(text)(name) == naive.glob_matches(text, name)


@given(_globs, _names)
def test_the_pieces_mean_what_the_matcher_does(text: str, name: str) -> None:
    assert glob.matcher(text)(name) == _walk(glob.parse(text), name)


def _walk(pieces: tuple[glob.Piece, ...], name: str) -> bool:
    """All the ways to match, kept as the set of pieces that may be next."""
    states = {0}
    for character in [*name, None]:
        pending = list(states)
        for state in pending:
            if state < len(pieces) and pieces[state] is MANY and state + 1 not in states:
                states.add(state + 1)
                pending.append(state + 1)
        if character is None:
            return len(pieces) in states
        states = {
            state if pieces[state] is MANY else state + 1
            for state in states
            if state < len(pieces) and _takes(pieces[state], character)
        }
    raise AssertionError


def _takes(piece: glob.Piece, character: str) -> bool:
    if isinstance(piece, OneOf):
        return character in piece
    return piece in (ANY, MANY, character)


def test_pieces_of_a_glob() -> None:
    small = OneOf(frozenset({("a", "c"), ("x", "x")}))
    assert glob.parse("a**?[a-cx][!-z]") == (
        "a",
        MANY,
        ANY,
        small,
        OneOf(frozenset({("-", "-"), ("z", "z")}), is_negated=True),
    )


@pytest.mark.parametrize("text", ["[", "a[b", "[]", "[!]", "[z-a]", "x" * 1025])
def test_an_invalid_glob_is_refused(text: str) -> None:
    with pytest.raises(glob.GlobError):
        glob.parse(text)
    with pytest.raises(glob.GlobError):
        glob.matcher(text)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("a?b", 0),
        ("*a?b", 0),
        ("a?*", 0),
        ("*abc*", 1),
        ("*abcdef*", 1),
        ("*abcdefg*", 2),
        ("*[b]*", 4),
        ("*a?*", 2),
        ("x*[ab]c?*abc*?*y?", 8),
    ],
)
def test_text_between_stars_costs_more_than_plain_text(text: str, cost: int) -> None:
    assert glob.cost(text) == cost


@pytest.mark.parametrize("piece", ["*a", "*?a", "*[ab]", "*a?"])
def test_a_glob_full_of_stars_ends(piece: str) -> None:
    """As a backtracking regular expression this would take longer than the universe has."""
    assert not glob.matcher(piece * 100 + "*c")("a" * 1024)
