"""Findings about mandatory rules: requests that evade them."""

from __future__ import annotations

import pytest

from rules.check.consistency import check
from rules.model import Severity
from tests.unit.rules.check.findings import ERROR, WARNING, decider, found, only
from tests.unit.rules.texts import rules_of

_MANDATORY = "when: {container: {prefix: patients-}}, mandatory: true, run: anything.py"


def test_a_mandatory_rule_behind_an_allow_is_useless() -> None:
    finding = only("when: {container: {glob: 'p*'}}, allow: true", _MANDATORY)
    assert (finding.code, finding.severity) == ("mandatory.useless", ERROR)
    assert decider(finding, "when: {container: {glob: 'p*'}}, allow: true", _MANDATORY) == "r0"


def test_an_allow_before_a_mandatory_rule_is_a_warning() -> None:
    texts = ["when: {roles: doctor, method: GET}, allow: true", _MANDATORY]
    finding = only(*texts)
    assert (finding.code, finding.severity, finding.place.line) == (
        "mandatory.allowed-past",
        WARNING,
        4,
    )
    assert decider(finding, *texts) == "r0"
    assert decider(finding, _MANDATORY) == "r0"


@pytest.mark.parametrize("action", ["run: gunzip.jar", "deny: x"])
def test_an_ordinary_rule_before_a_mandatory_rule_is_a_warning(action: str) -> None:
    """Only requests with a storlet of their own reach the mandatory rule."""
    texts = [f"when: {{object: {{suffix: .gz}}}}, {action}", _MANDATORY]
    finding = only(*texts)
    assert (finding.code, finding.severity) == ("mandatory.preceded", WARNING)
    assert decider(finding, *texts) == "r0"


def test_a_mandatory_rule_that_only_clients_with_a_storlet_come_to() -> None:
    """It may be meant: what the rules run is run, and nothing else is."""
    texts = ["when: {container: {prefix: p}}, run: anything.py", _MANDATORY]
    finding = only(*texts)
    assert (finding.code, finding.severity, finding.place.line) == (
        "rule.only-when-asked",
        WARNING,
        4,
    )
    assert "rule r0 before it decides every other request" in finding.text
    assert decider(finding, *texts) == "r0"


def test_an_allow_behind_an_ordinary_rule_lets_only_clients_with_a_storlet_past() -> None:
    texts = [
        "when: {container: patients-1}, deny: x",
        "when: {container: patients-1, user: bob}, allow: true",
        _MANDATORY,
    ]
    findings = check(rules_of(*texts), None)
    assert [each.code for each in findings] == [
        "rule.only-when-asked",
        "mandatory.allowed-past",
        "mandatory.preceded",
    ]
    assert [decider(each, *texts) for each in findings] == ["r0", "r1", "r0"]
    assert ["x-run-storlet" in each.example for each in findings] == [False, True, False]


def test_a_rule_that_is_also_about_clients_with_a_storlet_may_match_only_these() -> None:
    either = "any: [{header: {x-run-storlet: {present: true}}}, {container: a}]"
    first = "when: {container: {prefix: a}}, deny: x"
    texts = [first, f"when: {{{either}}}, mandatory: true, deny: y"]
    finding = only(*texts)
    assert finding.code == "rule.only-when-asked"
    assert decider(finding, *texts) == "r0"


def test_a_read_that_another_rule_decides_anyway_is_not_got_past() -> None:
    texts = [
        "when: {method: GET}, allow: true",
        "when: {container: a, not: {method: COPY}}, mandatory: true, deny: x",
    ]
    assert [each.code for each in check(rules_of(*texts), None)] == ["mandatory.allowed-past"]


def test_an_ordinary_rule_about_clients_with_a_storlet_never_holds() -> None:
    finding = only("when: {header: {x-run-storlet: mine.py}}, deny: x")
    assert (finding.code, finding.severity) == ("rule.never-holds", ERROR)
    assert "header.x-run-storlet: no value" in finding.text
    assert found("when: {header: {x-run-storlet: mine.py}}, mandatory: true, deny: x") == []
    assert (
        found("deny: y", "when: {header: {x-run-storlet: mine.py}}, mandatory: true, deny: x") == []
    )


@pytest.mark.parametrize("method", ["HEAD", "COPY"])
@pytest.mark.parametrize("action", ["run: anything.py", "deny: x"])
def test_a_mandatory_rule_that_leaves_a_read_out_by_name_is_a_warning(
    method: str, action: str
) -> None:
    texts = [f"when: {{container: a, not: {{method: {method}}}}}, mandatory: true, {action}"]
    finding = only(*texts)
    assert (finding.code, finding.severity, finding.place.line) == (
        "mandatory.read-past",
        WARNING,
        3,
    )
    assert finding.example.startswith(f"method={method} container=a object=")
    assert decider(finding, *texts) is None


@pytest.mark.parametrize(
    "texts",
    [
        ["when: {container: a, method: GET}, mandatory: true, deny: x"],
        ["when: {container: a, method: [GET, HEAD]}, mandatory: true, deny: x"],
        ["when: {container: a, not: {method: [PUT, POST]}}, mandatory: true, deny: x"],
        ["when: {container: a, not: {method: [GET, HEAD, COPY]}}, mandatory: true, deny: x"],
        [
            "when: {container: a, object: {present: false}, not: {method: HEAD}}, mandatory: true, deny: x"
        ],
        [
            "when: {container: a, not: {method: COPY}}, mandatory: true, run: anything.py",
            "when: {container: {prefix: a}, method: COPY}, mandatory: true, deny: x",
        ],
    ],
)
def test_a_mandatory_rule_that_no_read_gets_past_is_no_finding(texts: list[str]) -> None:
    assert found(*texts) == []


@pytest.mark.parametrize(
    "earlier",
    [
        "when: {container: logs}, allow: true",
        "when: {object: {suffix: .gz}}, mandatory: true, deny: x",
        "when: {object: {suffix: .gz}}, mandatory: true, run: gunzip.jar",
    ],
)
def test_a_rule_that_does_not_weaken_a_mandatory_rule_is_no_finding(earlier: str) -> None:
    notes = {("segments.uncovered", Severity.NOTE)}
    assert set(found(earlier, _MANDATORY)) <= notes


@pytest.mark.parametrize(
    ("texts", "is_noted"),
    [
        (["when: {container: docs}, mandatory: true, run: a.py"], False),
        (["when: {container: {prefix: docs}}, mandatory: true, run: a.py"], False),
        (["when: {container: {suffix: docs}}, mandatory: true, run: a.py"], False),
        (["when: {container: docs, method: PUT}, mandatory: true, run: a.py"], False),
        (["when: {container: docs, object: {suffix: .csv}}, mandatory: true, run: a.py"], True),
        (["when: {content-type: text/csv}, mandatory: true, run: a.py"], True),
        (
            [
                "when: {content-type: text/csv}, mandatory: true, run: a.py",
                "when: {container: {suffix: _segments}}, mandatory: true, deny: x",
            ],
            False,
        ),
        (
            [
                "when: {container: docs, not: {container: docs_segments}}, mandatory: true, run: a.py"
            ],
            True,
        ),
    ],
)
def test_segments_that_a_mandatory_rule_does_not_cover_are_a_note(
    texts: list[str], is_noted: bool
) -> None:
    noted = [each for each in check(rules_of(*texts), None) if each.code == "segments.uncovered"]
    assert bool(noted) == is_noted
    for finding in noted:
        assert finding.severity is Severity.NOTE
        assert "_segments" in finding.example
        assert decider(finding, *texts) != "r0"


def test_an_allow_that_others_take_all_requests_from_weakens_nothing() -> None:
    assert found(
        "when: {container: {prefix: patients-}, roles: doctor}, mandatory: true, deny: x",
        "when: {roles: doctor}, allow: true",
        _MANDATORY,
    ) == [("test.by-role", Severity.NOTE)]  # fmt: skip


def test_several_that_allow_are_named_in_one_finding() -> None:
    finding = only("when: {user: a}, allow: true", "when: {user: b}, allow: true", _MANDATORY)
    assert "rules r0, r1 before it allow" in finding.text
