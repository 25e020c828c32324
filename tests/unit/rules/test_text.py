"""The subset of YAML: the tree of a text, refused features, and the bounds of the parser."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rules import parse, text
from rules.faults import Faults
from rules.model import Deny, Operator, Test
from tests.unit.rules.texts import RULE, assert_fault, parsed, places_of_faults


@pytest.mark.parametrize("indent", [None, 2, "\t"])
def test_json_is_yaml(indent: int | str | None) -> None:
    source = {
        "version": 1,
        "rules": [
            {"name": "r", "when": {"user": 'J\U0001f600\\ud83d\\ude00\t"/'}, "deny": "n\u00e9"}
        ],
    }
    written = json.dumps(source, indent=indent)
    rule = parsed(written).rules[0]
    assert rule.condition == Test("user", Operator.EXACT, 'J\U0001f600\\ud83d\\ude00\t"/')
    assert rule.action == Deny("n\u00e9")


def test_bytes_and_a_byte_order_mark_are_accepted() -> None:
    assert (
        parsed(RULE.encode()).rules
        == parsed(b"\xef\xbb\xbf" + RULE.encode()).rules
        == parsed(RULE).rules
    )


#: Texts that libyaml and PyYAML parse differently, with the tree that every proxy must read.
#: ``None``: the text is refused.
_DISPUTED = {
    "[x:[y]]": [{"x": ["y"]}],
    "[x:{y: z}]": [{"x": {"y": "z"}}],
    "[a, b:]": ["a", {"b": ""}],
    "{x:}": {"x": ""},
    "[a?b]": None,
    "{glob: a?b}": None,
    "a:\tb": None,
}


def _plain(node: text.Node) -> Any:
    match node:
        case text.Mapping(entries):
            return {key.text: _plain(value) for key, value in entries}
        case text.Sequence(items):
            return [_plain(item) for item in items]
    return node.text


@pytest.mark.parametrize("written", _DISPUTED)
@pytest.mark.parametrize("has_libyaml", [True, False])
def test_the_tree_does_not_depend_on_libyaml(
    written: str, has_libyaml: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_libyaml:
        for name in [
            name for name in vars(yaml) if name.startswith("C") and name.endswith("Loader")
        ]:
            monkeypatch.delattr(yaml, name)
    found = Faults()
    node = text.read(written, found)
    assert (node and _plain(node)) == _DISPUTED[written]
    assert [each.code for each in found.findings()] == (["syntax"] if node is None else [])


def test_a_place_does_not_depend_on_libyaml() -> None:
    """libyaml sees an empty key after its mark, one column further on."""
    node = text.read("{a: b, ? }", Faults())
    assert isinstance(node, text.Mapping)
    assert [key.place.column for key, _ in node.entries] == [2, 9]


@pytest.mark.parametrize(
    ("body", "code", "message", "correction"),
    [
        ("allow: true\nwhen: &x {user: a}", "syntax.unsupported", "'&x' defines an anchor", "quote"),
        ("allow: true\nwhen: {user: !!str a}", "syntax.unsupported", "tag", "remove it"),
        ("allow: true\nwhen: {? [a] : b}", "value.type", "cannot be a key", "name"),
        ("allow: true\nallow: true", "key.duplicate", "'allow' is a duplicate, after line 4", "keep one"),
    ],
)  # fmt: skip
def test_each_fault_of_the_yaml_has_a_code_a_text_and_a_help(
    body: str, code: str, message: str, correction: str
) -> None:
    assert_fault(body, code, message, correction)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (RULE + "---\nx: y\n", [(5, 1, "syntax.unsupported")]),
        (RULE + "  - name: [\n", [(6, 1, "syntax")]),
        (RULE + "\t- x\n", [(5, 1, "syntax")]),
        (RULE.replace("r\n", "r\t# YAML parsers disagree about this tab\n", 1), [(3, 12, "syntax")]),
        ("a: *x", [(1, 4, "syntax.unsupported"), (1, 1, "key.missing"), (1, 1, "key.missing"), (1, 1, "key.unknown")]),
        (b"version: 1\nrules: \xff", [(2, 8, "syntax")]),
        ("version: 1\nrules: \x01", [(2, 8, "syntax")]),
        ("a: \ud800", [(1, 4, "syntax")]),
        ('a: b\nc: "\\U00110000"', [(2, 7, "syntax")]),
        ('a: "\\UFFFFFFFF"', [(1, 7, "syntax")]),
        (f"%YAML 1.{'1' * 5000}\n--- a", [(1, 9, "syntax")]),
    ],
)  # fmt: skip
def test_places_of_syntax_errors(source: bytes | str, expected: list[tuple[int, int, str]]) -> None:
    assert sorted(places_of_faults(source)) == sorted(expected)


def test_half_of_a_surrogate_pair_is_refused() -> None:
    source = RULE.replace("r\n", '"\\ud83d"\n', 1)
    assert places_of_faults(source)[0][2] == "syntax"


def test_a_text_that_is_too_long_is_not_parsed() -> None:
    assert places_of_faults(RULE + "#" * text.MAX_BYTES) == [(1, 1, "size.bytes")]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_stops_the_parser(opening: str) -> None:
    assert "size.nesting" in [code for _, _, code in places_of_faults(opening * 10_000)]


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_VALUES", 3000)
    assert places_of_faults(f"[{'a,' * (text.MAX_VALUES + 1)}]") == [
        (1, 2 * text.MAX_VALUES, "size.values")
    ]


@given(st.text(alphabet="ab:-{}[]\"'\n &*!#?|>%@`\t,1~\\UuxFd", max_size=40))
def test_random_texts_give_faults_and_no_exception(source: str) -> None:
    rules, findings = parse.parse(source)
    assert rules is None
    assert findings
