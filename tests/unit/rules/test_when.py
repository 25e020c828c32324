"""The notation of conditions: the meaning of each, and the fault of each mistake."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rules import model
from rules.conditions import TABLE
from rules.evaluation import holds
from rules.facts import Caller, Facts
from rules.model import Condition, Operator, Test
from tests.unit.rules import strategies
from tests.unit.rules.texts import assert_fault, condition_of, parsed


@pytest.mark.parametrize(
    ("written", "condition"),
    [
        ("{container: logs}", Test("container", Operator.EXACT, "logs")),
        ("{container: [logs]}", Test("container", Operator.ONE_OF, frozenset({"logs"}))),
        ("{object: {glob: '*.csv'}}", Test("object", Operator.GLOB, "*.csv")),
        ("{content-type: {prefix: Text/}}", Test("content-type", Operator.PREFIX, "text/")),
        ("{container: {glob: 'a[!/]b'}}", Test("container", Operator.GLOB, "a[!/]b")),
        ("{metadata: {k: ''}}", Test("metadata", Operator.EXACT, "", "k")),
        ("{header: {k: ['', a/b;c]}}", Test("header", Operator.ONE_OF, frozenset({"", "a/b;c"}), "k")),
        ("{metadata: {Class: Top}}", Test("metadata", Operator.EXACT, "Top", "class")),
        ("{query: {Format: {present: false}}}", Test("query", Operator.PRESENT, False, "Format")),
        ("{size: {at-least: 2K}}", Test("size", Operator.AT_LEAST, 2048)),
        ("{size: {at-most: 1}}", Test("size", Operator.AT_MOST, 1)),
        ("{size: {at-most: 3 GiB}}", Test("size", Operator.AT_MOST, 3 << 30)),
        ("{roles: admin}", Test("roles", Operator.HAS, frozenset({"admin"}))),
        ("{roles: [Admin, READER]}", Test("roles", Operator.HAS, frozenset({"admin", "reader"}))),
        ("{roles: {present: false}}", Test("roles", Operator.PRESENT, False)),
        ("{anonymous: false}", Test("anonymous", Operator.IS, False)),
        ("{client-address: 10.0.0.1}", Test("client-address", Operator.WITHIN, (ipaddress.ip_network("10.0.0.1/32"),))),
        ("{client-address: ['fd00::/8']}", Test("client-address", Operator.WITHIN, (ipaddress.ip_network("fd00::/8"),))),
        ("{not: {user: bob}}", model.Not(Test("user", Operator.EXACT, "bob"))),
        ("{user: 'no'}", Test("user", Operator.EXACT, "no")),
        ("{user: '22'}", Test("user", Operator.EXACT, "22")),
        ("{all: [{user: a}]}", model.All((Test("user", Operator.EXACT, "a"),))),
        ("{any: [{user: a}, {user: b, domain: d}]}", model.Any((
            Test("user", Operator.EXACT, "a"),
            model.All((Test("user", Operator.EXACT, "b"), Test("domain", Operator.EXACT, "d"))),
        ))),
    ],
)  # fmt: skip
def test_each_notation_of_a_condition(written: str, condition: Condition) -> None:
    assert condition_of(written) == condition


@pytest.mark.parametrize(
    ("written", "windows"),
    [
        ('{from: "08:00", to: "12:30", days: [mon]}', ((480, 749),)),
        ("{from: 08:00, to: 12:30, days: mon}", ((480, 749),)),
        ('{days: [tue], from: "22:00", to: "06:00"}', ((1440 + 1320, 1440 + 1799),)),
        ('{days: [sun], from: "22:00", to: "06:00"}', ((0, 359), (6 * 1440 + 1320, 10079))),
        ("{days: [sat, Sunday]}", ((5 * 1440, 10079),)),
        ("{days: [mon, tue], from: '00:00'}", ((0, 2879),)),
        ('{from: "00:00", to: "24:00"}', ((0, 10079),)),
        ('[{days: mon, to: "1:00"}, {days: mon, from: "23:00"}]', ((0, 59), (1380, 1439))),
        ('[{days: mon, to: "12:00"}, {days: mon, from: "11:00"}]', ((0, 1439),)),
        ('[{days: mon}, {days: mon, from: "11:00", to: "12:00"}]', ((0, 1439),)),
    ],
)
def test_each_notation_of_a_time(written: str, windows: tuple[tuple[int, int], ...]) -> None:
    assert condition_of(f"{{time: {written}}}") == Test("time", Operator.WITHIN, windows)


@pytest.mark.parametrize("written", ["Admin", "[guest, ADMIN]", "admin"])
@pytest.mark.parametrize("role", ["admin", "ADMIN", "aDmin"])
def test_roles_are_compared_in_any_case(written: str, role: str) -> None:
    assert holds(
        condition_of(f"{{roles: {written}}}"),
        Facts("GET", caller=Caller("u", roles=frozenset({role}))),
    )


def _written(condition: Condition) -> Any:
    match condition:
        case model.All(parts):
            return {"all": [_written(part) for part in parts]}
        case model.Any(parts):
            return {"any": [_written(part) for part in parts]}
        case model.Not(part):
            return {"not": _written(part)}
    fact = TABLE[condition.fact]
    operand: Any = condition.operand
    if isinstance(operand, frozenset):
        operand = sorted(operand)
    if condition.operator in (Operator.HAS, Operator.IS):
        return {fact.name: operand}
    test = {condition.operator.value: operand}
    return {fact.name: {condition.key: test} if condition.key else test}


def _can_be_written(condition: Condition) -> bool:
    match condition:
        case model.All(parts) | model.Any(parts):
            return bool(parts) and all(map(_can_be_written, parts))
        case model.Not(part):
            return _can_be_written(part)
    fact, operand = TABLE[condition.fact], condition.operand
    texts = (
        [operand] if isinstance(operand, str) else operand if isinstance(operand, frozenset) else []
    )
    if any((not text and not fact.may_be_empty) or set(fact.without) & set(text) for text in texts):
        return False
    is_empty_edge = (
        condition.operator in (Operator.PREFIX, Operator.SUFFIX) and not condition.operand
    )
    return condition.fact not in ("time", "client-address") and not is_empty_edge


@given(strategies.conditions().filter(_can_be_written), st.sampled_from(["json", "yaml"]))
def test_a_written_condition_is_parsed_back(condition: Condition, form: str) -> None:
    source = {"version": 1, "rules": [{"name": "r", "when": _written(condition), "deny": "no"}]}
    rules = parsed(json.dumps(source) if form == "json" else yaml.safe_dump(source))
    assert rules.rules[0].condition == condition


@pytest.mark.parametrize(
    ("body", "code", "message", "correction"),
    [
        ("allow: true\nwhen: {contaiiner: x}", "key.unknown", "no key 'contaiiner'", "did you mean 'container'?"),
        ("allow: true\nwhen: {container: {starts: x}}", "key.unknown", "container has no key 'starts'", "prefix"),
        ("allow: true\nwhen: {method: {prefix: G}}", "key.unknown", "method has no key 'prefix'", "exact, one-of"),
        ("allow: true\nwhen: {user: 22}", "value.type", "user must be a string, not a number", 'quote it: "22"'),
        ("allow: true\nwhen: {user: no}", "value.type", "not true or false", 'quote it: "no"'),
        ("allow: true\nwhen: {user: 2026-01-01}", "value.type", "a date", 'quote it: "2026-01-01"'),
        ("allow: true\nwhen: {user: ~}", "value.type", "must be a string, not empty", "quote it"),
        ("allow: true\nwhen: {user: }", "value.type", "must be a string, not empty", "write a string"),
        ("allow: true\nwhen: {user: [a, {}]}", "value.type", "must be a string, not a mapping", "write a string"),
        ("allow: true\nwhen: {user: []}", "value.bad", "the list of user is empty", "at least one"),
        ("allow: true\nwhen: {user: {}}", "value.bad", "user is empty", "exact, glob"),
        ("allow: true\nwhen: {user: {prefix: ''}}", "value.bad", "matches every value", "present"),
        ("allow: true\nwhen: {method: get}", "value.bad", "method cannot be 'get'", "did you mean 'GET'?"),
        ("allow: true\nwhen: {method: PATCH}", "value.bad", "method cannot be 'PATCH'", "use one of GET"),
        ("allow: true\nwhen: {object: {glob: 'a['}}", "value.bad", "unmatched '['", "in a glob"),
        ("allow: true\nwhen: {object: {present: yes}}", "value.type", "'yes'", "write true or false"),
        ("allow: true\nwhen: {size: 12}", "value.type", "size must be a mapping", "at-least"),
        ("allow: true\nwhen: {size: {at-least: -1}}", "value.bad", "'-1'", "64K"),
        ("allow: true\nwhen: {metadata: secret}", "value.type", "metadata must be a mapping", "name: value"),
        ("allow: true\nwhen: {metadata: {}}", "value.bad", "metadata is empty", "name: value"),
        ("allow: true\nwhen: {header: {a: x, A: y}}", "key.duplicate", "'A' is a duplicate", "keep one"),
        ("allow: true\nwhen: {header: {'a b': x}}", "value.bad", "not a valid name in header", "visible"),
        ("allow: true\nwhen: {client-address: 10.0.0.1/8}", "value.bad", "bits set", "did you mean 10.0.0.0/8?"),
        ("allow: true\nwhen: {client-address: here}", "value.bad", "not a network", "10.0.0.0/8"),
        ("allow: true\nwhen: {client-address: '::ffff:10.0.0.1'}", "value.bad", "never matches", "10.0.0.1/32"),
        ("allow: true\nwhen: {client-address: '::ffff:10.0.0.0/104'}", "value.bad", "never matches", "10.0.0.0/8?"),
        ("allow: true\nwhen: {client-address: 'fe80::1%eth0'}", "value.bad", "has a zone", "the % and all after it"),
        ("allow: true\nwhen: {header: {X_Purpose: a}}", "value.bad", "never occurs in header", "write x-purpose"),
        ("allow: true\nwhen: {metadata: {a_b: a}}", "value.bad", "never occurs in metadata", "write a-b"),
        ("allow: true\nwhen: {content-type: Text/CSV; charset=utf-8}", "value.bad", "without parameters", "write text/csv"),
        ("allow: true\nwhen: {content-type: [a/b, ' c/d']}", "value.bad", "without parameters", "write c/d"),
        ("allow: true\nwhen: {container: [a/b, c]}", "value.bad", "container contains '/', but no container ever", "test object"),
        ("allow: true\nwhen: {container: {prefix: a/}}", "value.bad", "prefix of container contains '/'", "test object"),
        ("allow: true\nwhen: {container: {glob: 'a*/b'}}", "value.bad", "glob of container contains '/'", "test object"),
        ("allow: true\nwhen: {content-type: {suffix: ';x'}}", "value.bad", "contains ';'", "remove the ;"),
        ("allow: true\nwhen: {container: ['', c]}", "value.bad", "container is empty, but no container is ever empty", "present: false"),
        ("allow: true\nwhen: {object: {exact: ''}}", "value.bad", "exact of object is empty", "present: false"),
        ("allow: true\nwhen: {object: {glob: ''}}", "value.bad", "glob of object is empty", "pattern to match"),
        ("allow: true\nwhen: {content-type: ''}", "value.bad", "content-type is empty", "present: false"),
        ("allow: true\nwhen: {user: {one-of: [ada, '']}}", "value.bad", "one-of of user is empty", "present: false"),
        ("allow: true\nwhen: {roles: ['', a]}", "value.bad", "roles is empty", "present: false"),
        ("allow: true\nwhen: {client-address: {within: a}}", "value.type", "client-address must be", "write"),
        ("allow: true\nwhen: {time: {days: [someday]}}", "value.bad", "a day cannot be 'someday'", "sunday"),
        ("allow: true\nwhen: {time: {from: '25:00'}}", "value.bad", "from of time cannot be '25:00'", "22:00"),
        ("allow: true\nwhen: {time: {from: '8:00', to: '08:00'}}", "value.bad", "between from and to is empty", "whole day"),
        ("allow: true\nwhen: {time: {from: '24:00'}}", "value.bad", "between from and to is empty", "whole day"),
        ("allow: true\nwhen: {time: {}}", "value.bad", "time is empty", "days"),
        ("allow: true\nwhen: {time: []}", "value.bad", "list of times is empty", "days"),
        ("allow: true\nwhen: {anonymous: 'true'}", "value.type", "must be true or false", "without quotes"),
        ("allow: true\nwhen: {roles: {has: x}}", "value.type", "roles must be a string or a list", "write [a, b]"),
        ("allow: true\nwhen: {roles: {present: true, has: x}}", "key.unknown", "roles has no key 'has'", "present"),
        ("allow: true\nwhen: {all: {user: a}}", "value.type", "all must be a list", "write all: ["),
        ("allow: true\nwhen: {any: []}", "value.type", "any must be a list of conditions, not an empty one", "any: ["),
        ("allow: true\nwhen: {any: [{}]}", "value.bad", "holds for every request", "add a test"),
        ("allow: true\nwhen: {not: {}}", "value.bad", "holds for every request", "add a test"),
        ("allow: true\nwhen: {not: x}", "value.type", "a condition must be a mapping", "method: GET"),
        ("allow: true\nwhen:", "value.type", "when must be a mapping, not empty", "method: GET"),
        ("allow: true\nwhen: [{user: a}]", "value.type", "when must be a mapping, not a list", "all: and any:"),
        ("allow: true\nwhen: {<<: {user: a}}", "syntax.unsupported", "merge keys", "write out the entries"),
    ],
)  # fmt: skip
def test_each_fault_of_a_condition_has_a_code_a_text_and_a_help(
    body: str, code: str, message: str, correction: str
) -> None:
    assert_fault(body, code, message, correction)
