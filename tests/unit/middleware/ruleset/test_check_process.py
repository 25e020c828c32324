"""The process that checks rules."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from rules.model import Finding, Place, Severity
from storlet_middleware.concurrency import run_process
from storlet_middleware.ruleset.check_process import as_data, check, from_data
from tests.unit.middleware.rules_account import MANDATORY, ORDINARY, RUNS


def test_the_kernel_ends_a_process_that_exceeds_its_cpu_time() -> None:
    """The limit is CPU time, which other work on the machine does not use up."""
    rules = "".join(
        f"- name: r{n}\n  when: {{object: {{glob: '*{n}*'}}, not: {{metadata: {{k{n % 7}: {{prefix: p{n}}}}}}}}}\n  deny: 'no'\n"
        for n in range(650)
    )
    asked = json.dumps({"text": f"version: 1\nrules:\n{rules}", "storlets": {}}).encode()
    command = [sys.executable, "-m", "storlet_middleware.ruleset.check_process", "1"]
    status, said = run_process(command, asked, {"PYTHONPATH": os.pathsep.join(sys.path)}, 120)
    assert (status, said) == (-signal.SIGXCPU, b"")


FINDING = Finding(Severity.WARNING, "rule.shadowed", Place(7, 5), "a text", "a help", "an example")


def test_a_finding_survives_its_way_through_json() -> None:
    assert from_data(json.loads(json.dumps(as_data(FINDING)))) == FINDING


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"rules: [", b"version: 2\nrules: []\n"])
def test_a_text_that_is_no_ruleset_has_findings_and_no_steps(text: bytes) -> None:
    for storlets in (None, {}):
        found = check(text, storlets)
        assert found["findings"]
        assert (found["steps"], found["is_mandatory"]) == ([], False)


@pytest.mark.parametrize(("rules", "expected"), [(ORDINARY, False), (MANDATORY, True)])
def test_a_ruleset_with_a_mandatory_rule_is_mandatory(rules: bytes, *, expected: bool) -> None:
    assert check(rules, None) == {"findings": [], "is_mandatory": expected, "steps": []}


def test_the_steps_of_a_rule_have_their_position_and_limits() -> None:
    text = (
        b"version: 1\nrules:\n- name: two\n  when: {container: a}\n  run:\n"
        b"    - one.py\n    - {storlet: two.py, limits: {memory: 64M}}\n"
    )
    first, second = check(text, None)["steps"]
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
    found = check(RUNS, {"up.py": {"exists": exists, "readers": readers}})
    assert {finding["code"] for finding in found["findings"]} == codes


def test_the_process_reads_and_prints_json() -> None:
    request = json.dumps({"text": MANDATORY.decode(), "storlets": None}).encode()
    command = [sys.executable, "-m", "storlet_middleware.ruleset.check_process", "10"]
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    status, output = run_process(command, request, environment, 60)
    assert (status, json.loads(output)) == (0, check(MANDATORY, None))
