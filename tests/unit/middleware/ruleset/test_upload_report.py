"""The response to an upload of rules."""

from __future__ import annotations

import json

import pytest
from swift.common.swob import Request

from rules.model import Finding, Place, Severity
from storlet_middleware import names
from storlet_middleware.errors import BadRequest
from storlet_middleware.ruleset import upload_report
from storlet_middleware.ruleset.check_process import as_data
from tests.unit.middleware.rules_account import RulesProxy

WRONG = b"""version: 1
rules:
- name: a
  when: {container: a}
  deny: never
- name: b
  when: {container: a, object: {prefix: x}}
  run: none.py
- name: c
  when: {method: PUT, container: c}
  run: {storlet: missing.py, limits: {memory: 9P}}
"""


def test_findings_are_json_for_clients_that_accept_it(proxy: RulesProxy) -> None:
    answer = proxy.upload(WRONG, {"Accept": "application/json"})
    said = json.loads(answer.body)
    assert said["code"] == "rules.invalid"
    assert {finding["code"] for finding in said["findings"]} == {
        "rule.never-matches",
        "storlet.missing",
        "limit.bad",
    }
    assert said["findings"][0] | {"text": "", "help": "", "example": ""} == {
        "severity": "error", "code": "rule.never-matches", "line": 6, "column": 3, "text": "", "help": "", "example": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    "rules", [b"", b"rules: [", b"\xff\xfe\x00", b"version: 1\nrules: [{name: \x1b[31m}]"]
)
def test_a_refusal_of_garbage_has_no_control_characters(proxy: RulesProxy, rules: bytes) -> None:
    answer = proxy.upload(rules)
    assert answer.status_int == 400
    assert answer.body.decode().replace("\n", "").isprintable()


FINDING = Finding(Severity.ERROR, "rule.bad", Place(7, 5), "rule b\x1b[31m is bad", "move b", "")


def test_a_paragraph_has_position_code_and_help_and_no_control_characters() -> None:
    assert upload_report.as_text([FINDING]) == (
        "rules.yaml:7:5: error [rule.bad]: rule b\\x1b[31m is bad\n    help: move b\n"
    )


@pytest.mark.parametrize("accept", ["", "application/json"])
def test_a_refusal_has_the_status_and_code_of_its_error(accept: str) -> None:
    environ = Request.blank("/v1/a/c/rules.yaml", headers={"Accept": accept}).environ
    error = BadRequest("the rules are invalid", code="rules.invalid")
    answer = upload_report.refusal(environ, error, [FINDING])
    assert (answer.status_int, answer.headers[names.ERROR]) == (400, "rules.invalid")
    if accept:
        body = json.loads(answer.body)
        assert (body["code"], body["message"]) == ("rules.invalid", "the rules are invalid")
        assert body["findings"] == [as_data(FINDING)]
    else:
        assert answer.body.startswith(b"the rules are invalid\nrules.yaml:7:5: error")
    assert answer.headers["Content-Type"].endswith("; charset=utf-8")


def test_accepted_warnings_come_with_201_and_without_an_error_code() -> None:
    environ = Request.blank("/", headers={"Accept": "application/json"}).environ
    answer = upload_report.acceptance(environ, "in force", [FINDING])
    assert answer.status_int == 201
    assert names.ERROR not in answer.headers
    assert set(json.loads(answer.body)) == {"message", "findings"}
