"""Languages of strings against lists of all short strings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.check import automata
from rules.check.automata import EVERY, MANY, Language, Universe, shortest
from rules.check.budget import Budget, UndecidedError
from rules.check.domains import language
from rules.facts import ContainerFacts, Facts, ObjectFacts
from rules.model import Operator, Test
from tests.unit.rules import naive
from tests.unit.rules.small_world import of_strings, strings

ANY_STRING = Universe()
NAMES = Universe(without="/", is_never_empty=True)
ALL_SHORT = strings(5)
STRING_TESTS = [test for test in of_strings("object") if test.operator is not Operator.PRESENT]


def find(*languages: Language, universe: Universe = ANY_STRING, steps: int = 100_000) -> str | None:
    return shortest(languages, universe, Budget(steps))


def passes(test: Test, text: str) -> bool | None:
    return naive.test_holds(
        test, Facts("GET", "c", text, stored=ObjectFacts(), holder=ContainerFacts())
    )


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        ([automata.prefix("ab"), automata.suffix("bc")], "abc"),
        (
            [automata.prefix("ab"), automata.suffix("bc"), automata.words(["abc"]).complement()],
            "abbc",
        ),
        ([automata.prefix("a"), automata.prefix("b")], None),
        ([automata.prefix("a"), automata.prefix("ab").complement(), automata.suffix("b")], "aab"),
        ([automata.words(["x", "yy"]), automata.words(["yy", "z"])], "yy"),
        ([automata.words(["x"]), automata.words(["x"]).complement()], None),
        ([automata.pattern([MANY]).complement()], None),
        ([automata.pattern([])], ""),
        ([automata.pattern([EVERY, EVERY]), automata.prefix("a").complement()], "ba"),
        ([automata.words([])], None),
        ([automata.pattern([()])], None),
    ],
)
def test_the_shortest_string_of_an_intersection(
    languages: list[Language], expected: str | None
) -> None:
    assert find(*languages) == expected


def test_names_are_not_empty_and_containers_have_no_slash() -> None:
    assert find(automata.pattern([MANY]), universe=NAMES) == "a"
    assert find(automata.words([""]), universe=NAMES) is None
    assert find(automata.prefix("a/"), universe=NAMES) is None
    assert find(automata.words(["a/b"]), universe=NAMES) is None


def test_the_only_character_that_is_left_is_found() -> None:
    readable = automata.ranges([("!", "~")])
    control = automata.ranges([(" ", chr(0x10FFFF))])
    assert find(automata.pattern([EVERY]), automata.pattern([readable]).complement()) == " "
    found = find(automata.pattern([EVERY]), automata.pattern([control]).complement())
    assert found is not None
    assert 0 < ord(found) < ord(" ")
    surrogates = automata.ranges([("\ud800", "\udfff")])
    assert find(automata.pattern([surrogates])) is None


def test_ranges_merge_and_invert() -> None:
    assert automata.ranges([("c", "d"), ("a", "b"), ("x", "y"), ("z", "a")]) == (
        (97, 100),
        (120, 121),
    )
    assert automata.ranges([("\0", "y"), ("{", "\U0010ffff")], is_negated=True) == ((122, 122),)
    assert automata.ranges([], is_negated=True) == EVERY


def test_thousands_of_excluded_words_are_cheap() -> None:
    ruled_out = [f"object-{number}" for number in range(5000)]
    found = find(
        automata.prefix("object-"),
        *(automata.words([each]).complement() for each in ruled_out),
        steps=20_000,
    )
    assert found == "object-"


def test_a_search_beyond_the_budget_is_undecided() -> None:
    # The product remembers which of the last 20 characters were an a, which is a million states.
    far = [
        automata.pattern([MANY, *[((97, 97),)], *[EVERY] * 20]),
        automata.pattern([MANY, ((97, 97),), *[EVERY] * 19]),
    ]
    with pytest.raises(UndecidedError):
        find(far[0], far[1].complement(), automata.suffix("b").complement(), steps=50)


@given(st.lists(st.tuples(st.sampled_from(STRING_TESTS), st.booleans()), max_size=4), st.booleans())
def test_the_found_string_is_the_shortest_that_passes_every_test(
    literals: list[tuple[Test, bool]], is_never_empty: bool
) -> None:
    languages = [
        language(test).complement() if is_negated else language(test)
        for test, is_negated in literals
    ]
    universe = Universe(is_never_empty=is_never_empty)
    passing = [
        text
        for text in ALL_SHORT
        if universe.contains(text)
        and all(passes(test, text) is not is_negated for test, is_negated in literals)
    ]
    found = find(*languages, universe=universe)
    if found is None:
        assert passing == []
    else:
        assert all(passes(test, found) is not is_negated for test, is_negated in literals)
        assert not passing or len(found) == min(map(len, passing))


@given(st.sampled_from(STRING_TESTS), st.sampled_from(ALL_SHORT))
def test_a_language_contains_what_its_test_passes(test: Test, text: str) -> None:
    assert language(test).contains(text) is passes(test, text)
    assert language(test).complement().contains(text) is not passes(test, text)
