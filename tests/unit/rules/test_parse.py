"""The text format: what it means, and what is told about each mistake."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rules import model, parse, text
from rules.conditions import TABLE, cautious, holds
from rules.facts import Caller, Facts
from rules.faults import MAX_FAULTS, Faults
from rules.model import (
    Allow,
    Condition,
    Deny,
    Explicit,
    Finding,
    Operator,
    Passes,
    Place,
    Reverse,
    Rule,
    RuleSet,
    Run,
    Step,
    Template,
    Test,
)
from tests.unit.rules import strategies

HEAD = "version: 1\nrules:\n"
RULE = HEAD + "  - name: r\n    allow: true\n"


def parsed(source: bytes | str) -> RuleSet:
    rules, findings = parse.parse(source)
    assert findings == ()
    assert rules
    return rules


def one(body: str) -> Rule:
    """The rule with these lines."""
    return parsed(
        HEAD + "  - name: r\n" + "".join(f"    {line}\n" for line in body.splitlines())
    ).rules[0]


def when(condition: str) -> Condition:
    """As a rule that restricts has it, so as it is written."""
    return one(f"when: {condition}\ndeny: stop").condition


def faults(source: bytes | str) -> list[tuple[int, int, str]]:
    rules, findings = parse.parse(source)
    assert rules is None
    assert all(found.text and found.help for found in findings)
    return [(found.place.line, found.place.column, found.code) for found in findings]


def fault(body: str) -> Finding:
    """The only thing that is wrong with a rule with these lines."""
    rules, findings = parse.parse(
        HEAD + "  - name: r\n" + "".join(f"    {line}\n" for line in body.splitlines())
    )
    assert rules is None
    assert len(findings) == 1, findings
    return findings[0]


# --- what it means --------------------------------------------------------------------------------

EVERYTHING = """\
version: 1
rules:
  - name: deidentify
    when:
      method: [GET, HEAD]
      container: {prefix: patients-, suffix: x}
    mandatory: true
    explicit: after
    run: {storlet: d-1.0.jar, parameters: {k: "v {object}"}, on: proxy, limits: {memory: 64M, cpu: 0.5}}
    pass: {metadata: [Project, x-*], headers: last-modified}
  - name: pack
    when: {method: PUT}
    run: [a.py, {storlet: b.py}]
    and-reverse-on-read: {run: c.py, when: {roles: reader}}
  - name: night
    deny: "no exports by night"
  - {name: rest, when: {}, allow: true}
"""


def test_every_part_of_a_rule() -> None:
    rules = parsed(EVERYTHING)
    methods = Test("method", Operator.ONE_OF, frozenset({"GET", "HEAD", "COPY"}))
    ends = model.All(
        (Test("container", Operator.PREFIX, "patients-"), Test("container", Operator.SUFFIX, "x"))
    )
    step = Step(
        "d-1.0.jar",
        (("k", Template(("v ", "object", ""))),),
        "proxy",
        (("memory", "64M"), ("cpu", "0.5")),
    )
    passes = Passes(("project", "x-*"), ("last-modified",))
    reader = Test("roles", Operator.HAS, frozenset({"reader"}))
    run = Run((Step("a.py"), Step("b.py")), Reverse((Step("c.py"),), reader))
    assert rules.rules == (
        Rule("deidentify", model.All((methods, ends)), Run((step,)), True, Explicit.AFTER, passes),
        Rule("pack", Test("method", Operator.EXACT, "PUT"), run),
        Rule("night", model.All(), Deny("no exports by night")),
        Rule("rest", model.All(), Allow()),
    )
    assert [rule.place for rule in rules.rules] == [
        Place(3, 5),
        Place(11, 5),
        Place(15, 5),
        Place(17, 5),
    ]
    assert rules.version == parse.version_of(EVERYTHING.encode())


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
def test_what_a_condition_means(written: str, condition: Condition) -> None:
    assert when(written) == condition


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
def test_what_a_time_means(written: str, windows: tuple[tuple[int, int], ...]) -> None:
    assert when(f"{{time: {written}}}") == Test("time", Operator.WITHIN, windows)


def test_missing_values_count_against_rules_that_do_not_restrict() -> None:
    written = model.Not(Test("user", Operator.EXACT, "bob"))
    line = "when: {not: {user: bob}}\n"
    assert one(line + "deny: stop").condition == written
    assert one(line + "run: a.py\nmandatory: true").condition == written
    assert one(line + "allow: true").condition == cautious(written) != written
    assert one(line + "run: a.py").condition == cautious(written)
    reverse = one("run: a.py\nand-reverse-on-read: {run: b.py, when: {not: {user: bob}}}").action
    assert isinstance(reverse, Run)
    assert reverse.reverse == Reverse((Step("b.py"),), cautious(written))


def test_a_mandatory_rule_about_get_is_about_head_and_copy_as_well() -> None:
    written, meant = (
        Test("method", Operator.EXACT, "GET"),
        Test("method", Operator.ONE_OF, frozenset({"GET", "HEAD", "COPY"})),
    )
    for action in ("run: a.py", "deny: stop"):
        for line in (
            "when: {method: GET}\n",
            "when: {method: [GET]}\n",
            "when: {method: {one-of: [GET, HEAD]}}\n",
        ):
            assert one(f"{line}{action}\nmandatory: true").condition == meant
        assert one(f"when: {{method: GET}}\n{action}").condition == written
        assert one(
            f"when: {{not: {{method: GET}}}}\n{action}\nmandatory: true"
        ).condition == model.Not(written)
    assert one("when: {method: GET}\nallow: true").condition == written


def test_who_has_no_role_is_not_let_past_by_the_lack_of_it() -> None:
    nobody = Facts("GET", "c", "o", Caller(is_anonymous=True))
    line = "when: {not: {roles: [intern]}}\n"
    assert holds(one(line + "allow: true").condition, nobody) is False
    assert holds(one(line + "run: a.py").condition, nobody) is False
    assert holds(one(line + "deny: stop").condition, nobody) is True
    assert holds(one(line + "run: a.py\nmandatory: true").condition, nobody) is True
    assert holds(one("when: {roles: {present: false}}\nallow: true").condition, nobody) is True


@pytest.mark.parametrize("written", ["Admin", "[guest, ADMIN]", "admin"])
@pytest.mark.parametrize("role", ["admin", "ADMIN", "aDmin"])
def test_roles_are_compared_in_any_case(written: str, role: str) -> None:
    assert holds(
        when(f"{{roles: {written}}}"), Facts("GET", caller=Caller("u", roles=frozenset({role})))
    )


def test_a_rule_whose_condition_may_hold_of_an_upload_can_be_undone() -> None:
    for condition in (
        "{user: bob}",
        "{method: [GET, PUT]}",
        "{not: {method: GET}}",
        "{any: [{method: GET}, {user: b}]}",
    ):
        assert one(f"when: {condition}\nrun: a.py\nand-reverse-on-read: {{run: b.py}}").action


def test_the_key_on_is_no_truth_value() -> None:
    action = one("run: {storlet: a.py, on: object}").action
    assert isinstance(action, Run)
    assert action.steps[0].on == "object"


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


def test_bytes_and_a_byte_order_mark_are_fine() -> None:
    assert (
        parsed(RULE.encode()).rules
        == parsed(b"\xef\xbb\xbf" + RULE.encode()).rules
        == parsed(RULE).rules
    )


def test_no_rules_are_fine() -> None:
    assert parsed("version: 1\nrules: []\n").rules == ()


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
def test_a_condition_written_down_is_read_back(condition: Condition, form: str) -> None:
    source = {"version": 1, "rules": [{"name": "r", "when": _written(condition), "deny": "no"}]}
    rules = parsed(json.dumps(source) if form == "json" else yaml.safe_dump(source))
    assert rules.rules[0].condition == condition


#: What libyaml and PyYAML's own reader do not agree on, with what is read on every proxy; ``None`` is refused.
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
def test_what_is_read_does_not_depend_on_libyaml(
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


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "said", "mended"),
    [
        ("allou: true\nallow: true", "key.unknown", "a rule has no key 'allou'", "did you mean 'allow'?"),
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
        ("allow: false", "value.bad", "has no effect", "deny"),
        ("deny: ''", "value.bad", "is empty", "one line"),
        ('deny: "a\\nb"', "value.bad", "line breaks", "one line"),
        ("run: a/b.py", "value.bad", "contains a slash", "without the container"),
        ("run: []", "value.bad", "run has 0 storlets", "1 to 10"),
        ("run: {on: proxy}", "key.missing", "storlet has no name", "add storlet"),
        ("run: {storlet: a.py, on: moon}", "value.bad", "on cannot be 'moon'", "object"),
        ("run: {storlet: a.py, parameters: {k: 5}}", "value.type", "the parameter k must be a string", 'quote it: "5"'),
        ("run: {storlet: a.py, parameters: {k: '{who}'}}", "value.bad", "{who} is unknown", "{{"),
        ("run: {storlet: a.py, parameters: {k: '{metadata.a b}'}}", "value.bad", "{metadata.a b} is unknown", "{{"),
        ("run: {storlet: a.py, parameters: {k: '{metadata.a_b}'}}", "value.bad", "{metadata.a_b} is unknown", "{{"),
        ("run: {storlet: a.py, parameters: {storlet_x: a}}", "value.bad", "reserved", "another name"),
        ("run: {storlet: a.py, parameters: {'a:b': a}}", "value.bad", "is not a valid parameter name", "colon"),
        ("run: {storlet: a.py, limits: {Memory: 1}}", "value.bad", "is not a valid limit", "lower case"),
        ("run: {storlet: a.py, limits: {memory: yes}}", "value.type", "must be a value", "64M"),
        ("run: a.py\npass: {headers: [ETag]}", "value.bad", "never has the source's header etag", "remove it"),
        ("run: a.py\npass: {headers: [X-Object-Sysmeta-*]}", "value.bad", "a result never has", "internal to the cluster"),
        ("run: a.py\npass: {headers: [x-object-meta-study]}", "value.bad", "a result never has", 'metadata: ["study"]'),
        ("run: a.py\npass: {headers: [last_modified]}", "value.bad", "'last_modified' in pass headers never occurs", "last-modified"),
        ("run: a.py\npass: {metadata: ['a_*']}", "value.bad", "'a_*' in pass metadata never occurs", "write a-*"),
        ("run: a.py\npass: {headers: ['*-x']}", "value.bad", "not a valid name", "at the end only"),
        ("run: a.py\npass: all", "value.type", "pass must be a mapping", "headers"),
        ("allow: true\npass: {headers: [last-modified]}", "key.misplaced", "pass requires a run", "remove it"),
        ("allow: true\nmandatory: true", "key.misplaced", "cannot be mandatory", "run or deny"),
        ("run: a.py\nmandatory: yes", "value.type", "mandatory must be true or false", "true or false"),
        ("run: a.py\nexplicit: after", "key.misplaced", "explicit requires", "mandatory: true"),
        ("run: a.py\nmandatory: true\nexplicit: later", "value.bad", "explicit cannot be 'later'", "after"),
        ("deny: stop\nmandatory: true\nexplicit: after", "key.misplaced", "explicit requires", "mandatory: true"),
        ("run: a.py\nwhen: {method: GET}\nand-reverse-on-read: {run: b.py}", "key.misplaced", "on PUT", "method: PUT"),
        ("deny: stop\nand-reverse-on-read: {run: b.py}", "key.misplaced", "requires a run", "remove it"),
        ("run: a.py\nand-reverse-on-read: {}", "key.missing", "has no run", "add run"),
        ("mandatory: false", "rule.actions", "has no action", "exactly one"),
        ("run: a.py\ndeny: stop", "rule.actions", "has run and deny", "exactly one"),
        ("allow: true\nwhen: &x {user: a}", "syntax.unsupported", "'&x' defines an anchor", "quote"),
        ("allow: true\nwhen: {user: !!str a}", "syntax.unsupported", "tag", "remove it"),
        ("allow: true\nwhen: {<<: {user: a}}", "syntax.unsupported", "merge keys", "write out the entries"),
        ("allow: true\nwhen: {? [a] : b}", "value.type", "cannot be a key", "name"),
        ("allow: true\nallow: true", "key.duplicate", "'allow' is a duplicate, after line 4", "keep one"),
    ],
)  # fmt: skip
def test_each_mistake_is_named_with_how_to_mend_it(
    body: str, code: str, said: str, mended: str
) -> None:
    found = fault(body)
    assert found.code == code
    assert said in found.text
    assert mended in found.help


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("", [(1, 1, "key.missing")]),
        ("# only a comment\n", [(1, 1, "key.missing")]),
        ("{}", [(1, 1, "key.missing"), (1, 1, "key.missing")]),
        ("rules: []", [(1, 1, "key.missing")]),
        ("version: 2\nrules: []", [(1, 10, "value.bad")]),
        ("version: [1]\nrules: []", [(1, 10, "value.bad")]),
        ("version: 1\nrules: {}", [(2, 8, "value.type")]),
        ("version: 1\nrule: []", [(1, 1, "key.missing"), (2, 1, "key.unknown")]),
        ("- a", [(1, 1, "value.type")]),
        (HEAD + "  - allow: true\n", [(3, 5, "key.missing")]),
        (HEAD + "  - just text\n", [(3, 5, "value.type")]),
        (HEAD + "  - {name: a b, allow: true}\n", [(3, 12, "value.bad")]),
        (HEAD + "  - {name: a, allow: true}\n" * 3, [(4, 5, "rule.duplicate-name"), (5, 5, "rule.duplicate-name")]),
        (RULE + "---\nx: y\n", [(5, 1, "syntax.unsupported")]),
        (RULE + "  - name: [\n", [(6, 1, "syntax")]),
        (RULE + "\t- x\n", [(5, 1, "syntax")]),
        (RULE.replace("r\n", "r\t# some readers take this and some refuse it\n", 1), [(3, 12, "syntax")]),
        ("a: *x", [(1, 4, "syntax.unsupported"), (1, 1, "key.missing"), (1, 1, "key.missing"), (1, 1, "key.unknown")]),
        (b"version: 1\nrules: \xff", [(2, 8, "syntax")]),
        ("version: 1\nrules: \x01", [(2, 8, "syntax")]),
        ("a: \ud800", [(1, 4, "syntax")]),
        ('a: b\nc: "\\U00110000"', [(2, 7, "syntax")]),
        ('a: "\\UFFFFFFFF"', [(1, 7, "syntax")]),
        (f"%YAML 1.{'1' * 5000}\n--- a", [(1, 9, "syntax")]),
    ],
)  # fmt: skip
def test_places_of_faults(source: bytes | str, found: list[tuple[int, int, str]]) -> None:
    assert sorted(faults(source)) == sorted(found)


def test_all_faults_are_told_together_in_the_order_of_the_text() -> None:
    source = HEAD + (
        "  - name: a\n"
        "    when:\n"
        "      contaiiner: x\n"
        "      user: 5\n"
        "      time: {from: soon}\n"
        "    allou: true\n"
        "  - name: b\n"
        "    run: {storlet: x.py, parameters: {p: '{y}'}}\n"
        "    mandatory: perhaps\n"
    )
    assert faults(source) == [
        (3, 5, "rule.actions"),
        (5, 7, "key.unknown"),
        (6, 13, "value.type"),
        (7, 20, "value.bad"),
        (8, 5, "key.unknown"),
        (10, 42, "value.bad"),
        (11, 16, "value.type"),
    ]


def test_half_a_character_is_refused() -> None:
    source = RULE.replace("r\n", '"\\ud83d"\n', 1)
    assert faults(source)[0][2] == "syntax"


# --- what is too much -----------------------------------------------------------------------------


def test_a_long_text_is_refused_unread() -> None:
    assert faults(RULE + "#" * text.MAX_BYTES) == [(1, 1, "size.bytes")]


def test_too_many_rules_are_refused() -> None:
    rules = [f"  - {{name: r{number}, allow: true}}\n" for number in range(parse.MAX_RULES + 1)]
    assert len(parsed(HEAD + "".join(rules[1:])).rules) == parse.MAX_RULES
    assert faults(HEAD + "".join(rules)) == [(parse.MAX_RULES + 3, 5, "size.rules")]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_is_refused_without_being_read(opening: str) -> None:
    assert "size.nesting" in [code for _, _, code in faults(opening * 10_000)]


@pytest.mark.no_cover  # other tests cover the same code, and tracing doubles this one's time
def test_too_many_values_are_refused() -> None:
    assert faults(f"[{'a,' * (text.MAX_VALUES + 1)}]") == [(1, 2 * text.MAX_VALUES, "size.values")]


def test_a_great_many_mistakes_are_counted_and_not_listed() -> None:
    rules, findings = parse.parse(
        HEAD + "  - name: r\n    allow: true\n" + "".join(f"    k{n}: x\n" for n in range(5000))
    )
    assert rules is None
    assert len(findings) == MAX_FAULTS + 1
    assert findings[-1].code == "more"
    assert "4,900 more" in findings[-1].text


def test_globs_that_take_long_together_are_refused() -> None:
    globs = ", ".join(
        f"{{object: {{glob: '*{'a?' * 500}*'}}}}" for _ in range(parse.MAX_GLOB_COST // 1000)
    )
    rule = "  - {name: %s, when: {any: [%s]}, deny: stop}\n"
    source = HEAD + rule % ("a", globs)
    assert parsed(source)
    assert faults(source + rule % ("b", "{object: {glob: '*b*'}}")) == [(4, 5, "size.globs")]


@given(st.text(alphabet="ab:-{}[]\"'\n &*!#?|>%@`\t,1~\\UuxFd", max_size=40))
def test_no_text_breaks_the_parser(source: str) -> None:
    rules, findings = parse.parse(source)
    assert rules is None
    assert findings
