"""``storlet rules who-can`` and ``diff``: output, JSON and exit status."""

from __future__ import annotations

import pytest

from rules.check import questions
from tests.unit.cli.commands import Run, Write

OLD = """\
version: 1
rules:
  - name: staff
    when: {roles: [physician]}
    allow: true
  - name: deidentify
    when: {method: GET, container: {prefix: patients-}}
    mandatory: true
    run: deidentify.py
  - name: night
    when: {header: {x-purpose: export}}
    mandatory: true
    deny: no exports
"""
NEW = OLD.replace("[physician]", "[physician, nurse]").replace("export}", "report}")
WRONG = "version: 1\nrules: 7\n"


def test_the_most_revealing_outcome_is_shown_first(run: Run, write: Write) -> None:
    answer = run("who-can", write("r.yaml", OLD), "get", "/patients-1/a.csv")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "unchanged  rule staff: allow"
    assert "when roles: one of 'physician'" in lines[1]
    assert "roles=physician" in lines[2]
    assert lines[3] == "processed  mandatory rule deidentify: runs deidentify.py"
    # The rule with `deny` comes after one that decides each GET of this container.
    assert "night" not in answer.out


@pytest.mark.parametrize(
    ("method", "path", "effects"),
    [
        ("DELETE", "/c/o", ["allowed", "refused", "allowed"]),
        ("PUT", "/c/o", ["unchanged", "refused", "unchanged"]),
        ("GET", "/c", ["unchanged", "refused", "unchanged"]),
    ],
)
def test_json_has_all_outcomes_in_the_order_of_the_rules(
    run: Run, write: Write, method: str, path: str, effects: list[str]
) -> None:
    outcomes = run("who-can", "--json", write("r.yaml", OLD), method, path).data["outcomes"]
    assert [each["effect"] for each in outcomes] == effects
    assert [each["rule"] for each in outcomes] == ["staff", "night", None]
    assert [each["example"].get("object") for each in outcomes] == [
        "o" if path.endswith("/o") else None
    ] * 3


def test_all_faults_of_the_command_line_are_reported(run: Run, write: Write) -> None:
    answer = run("who-can", write("r.yaml", OLD), "GTE", "c")
    assert answer.code == 2
    assert "METHOD 'GTE': use one of GET, HEAD, PUT, POST, COPY, DELETE" in answer.err
    assert "'c': write /CONTAINER/OBJECT" in answer.err


@pytest.mark.parametrize(
    "words", [["who-can", "w.yaml", "GET", "/c"], ["diff", "r.yaml", "w.yaml"]]
)
def test_faults_of_the_rules_are_findings(run: Run, write: Write, words: list[str]) -> None:
    write("r.yaml", OLD)
    write("w.yaml", WRONG)
    answer = run(*words)
    assert answer.code == 1
    assert answer.out.startswith("w.yaml:2:8: error")


def test_diff_fails_for_what_is_newly_allowed(run: Run, write: Write) -> None:
    answer = run("diff", write("old.yaml", OLD), write("new.yaml", NEW))
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert lines[0] == "newly allowed: before, mandatory rule deidentify: runs deidentify.py"
    assert lines[1] == "    now: rule staff: allow"
    assert "roles=nurse" in lines[2]
    assert "newly restricted: before, no rule decides" in lines
    assert lines[-1].endswith("2 newly allowed")


def test_diff_succeeds_for_stricter_and_for_equal_rules(run: Run, write: Write) -> None:
    old, stricter = write("old.yaml", OLD), OLD.replace("allow: true", "deny: closed")
    answer = run("diff", "--json", old, write("new.yaml", stricter))
    assert answer.code == 0
    assert {each["kind"] for each in answer.data["changes"]} == {"newly restricted"}
    assert answer.data["changes"][0]["example"]["roles"] == ["physician"]
    same = run("diff", old, old)
    assert (same.code, same.out) == (0, "no request is treated differently\n")


def test_an_exhausted_budget_fails_and_is_said(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "QUESTION_STEPS", 1)
    old = write("old.yaml", OLD)
    for answer in (run("who-can", old, "GET", "/patients-1/a"), run("diff", old, old)):
        assert answer.code == 1
        assert "the work budget was exhausted" in answer.out


def test_only_one_file_can_be_standard_input(run: Run) -> None:
    assert run("diff", "-", "-").code == 2


def test_audited_rules_are_named(run: Run, write: Write) -> None:
    file = write("r.yaml", "version: 1\nrules:\n- {name: shut, mode: audit, deny: closed}\n")
    answer = run("who-can", file, "GET", "/c/o")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "unchanged  no rule decides"
    assert lines[-1] == "audited, and so without effect: shut"
    assert run("who-can", "--json", file, "GET", "/c/o").data["audited"] == ["shut"]
