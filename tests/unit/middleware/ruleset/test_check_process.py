"""The process that checks rules."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from rules.model import Finding, Place, Severity
from storlet_middleware.concurrency import ProcessEnded, conversation
from storlet_middleware.ruleset.check_process import Check, as_data, from_data
from tests.unit.middleware.rules_account import MANDATORY, ORDINARY, RUNS

COMMAND = [sys.executable, "-m", "storlet_middleware.ruleset.check_process"]
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(sys.path)}


def test_the_kernel_ends_a_process_that_exceeds_its_cpu_time() -> None:
    """The limit is CPU time, which other work on the machine does not use up."""
    rules = "".join(
        f"- name: r{n}\n  when: {{object: {{glob: '*{n}*'}}, not: {{metadata: {{k{n % 7}: {{prefix: p{n}}}}}}}}}\n  deny: 'no'\n"
        for n in range(650)
    )
    with conversation([*COMMAND, "1"], ENVIRONMENT, 120) as ask:
        ask(json.dumps({"text": f"version: 1\nrules:\n{rules}"}).encode())
        with pytest.raises(ProcessEnded) as ended:
            ask(b'{"storlets": {}}')
    assert ended.value.status == -signal.SIGXCPU


FINDING = Finding(Severity.WARNING, "rule.shadowed", Place(7, 5), "a text", "a help", "an example")


def test_a_finding_survives_its_way_through_json() -> None:
    assert from_data(json.loads(json.dumps(as_data(FINDING)))) == FINDING


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"rules: [", b"version: 2\nrules: []\n"])
def test_a_text_that_is_no_ruleset_has_findings_and_no_steps(text: bytes) -> None:
    found = Check().parse(text)
    assert found["findings"]
    assert (found["steps"], found["is_mandatory"]) == ([], False)


@pytest.mark.parametrize(("rules", "expected"), [(ORDINARY, False), (MANDATORY, True)])
def test_a_ruleset_with_a_mandatory_rule_is_mandatory(rules: bytes, *, expected: bool) -> None:
    assert Check().parse(rules) == {"findings": [], "is_mandatory": expected, "steps": []}


def test_the_steps_of_a_rule_have_their_position_and_limits() -> None:
    text = (
        b"version: 1\nrules:\n- name: two\n  when: {container: a}\n  run:\n"
        b"    - one.py\n    - {storlet: two.py, limits: {memory: 64M}}\n"
    )
    first, second = Check().parse(text)["steps"]
    assert (first["rule"], first["storlet"], first["line"], first["limits"]) == (
        "two", "one.py", 6, {},
    )  # fmt: skip
    assert (second["storlet"], second["line"], second["limits"]) == ("two.py", 7, {"memory": "64M"})


@pytest.mark.parametrize(
    ("exists", "readers", "codes"),
    [
        (True, "all", set()),
        (True, "named", set()),
        (True, None, set()),
        (False, "all", {"storlet.missing"}),
    ],
)
def test_storlets_are_checked_when_they_are_known(
    exists: object, readers: str | None, codes: set[str]
) -> None:
    made = Check()
    made.parse(RUNS)
    found = made.check({"up.py": {"exists": exists, "readers": readers}})
    assert {finding["code"] for finding in found["findings"]} == codes


def test_the_process_answers_line_by_line() -> None:
    with conversation([*COMMAND, "10"], ENVIRONMENT, 60) as ask:
        for text in (RUNS, MANDATORY):
            here = Check()
            assert json.loads(ask(json.dumps({"text": text.decode()}).encode())) == here.parse(text)
            known = {"up.py": {"exists": False}}
            answer = ask(json.dumps({"storlets": known}).encode())
            assert json.loads(answer) == here.check(known)
