"""The notation of actions: run, deny, allow, and the options of run."""

from __future__ import annotations

import pytest

from rules.model import Run
from tests.unit.rules.texts import assert_fault, rule_of


def test_a_rule_that_can_match_a_put_may_have_a_reverse() -> None:
    for condition in (
        "{user: bob}",
        "{method: [GET, PUT]}",
        "{not: {method: GET}}",
        "{any: [{method: GET}, {user: b}]}",
    ):
        assert rule_of(f"when: {condition}\nrun: a.py\nand-reverse-on-read: {{run: b.py}}").action


def test_the_key_on_is_not_a_boolean() -> None:
    action = rule_of("run: {storlet: a.py, on: object}").action
    assert isinstance(action, Run)
    assert action.steps[0].on == "object"


@pytest.mark.parametrize(
    ("body", "code", "message", "correction"),
    [
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
        ("run: a.py\nand-reverse-on-read: {}", "key.missing", "has no run", "add run"),
    ],
)  # fmt: skip
def test_each_fault_of_an_action_has_a_code_a_text_and_a_help(
    body: str, code: str, message: str, correction: str
) -> None:
    assert_fault(body, code, message, correction)
