"""``storlet rules``: output and exit status; the worked examples, the sample and the reference
page."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from rules import reference
from rules.check import consistency
from rules.conditions import TABLE
from rules.model import Finding, Operator, Place, RuleSet, Severity
from rules.text import MAX_BYTES
from storlet_middleware.cli import rules as command
from tests.unit.cli.commands import Run, Write

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted(
    path
    for path in (ROOT / "docs/examples/rules").glob("*.yaml")
    if not path.name.endswith(".cases.yaml")
)
PAGE = ROOT / "docs/user/rules/how-to.rst"
REFERENCE = ROOT / "docs/user/rules/reference.rst"

RULES = """\
version: 1
rules:
  - name: deidentify
    when: {method: GET, container: {prefix: patients-}, roles: [researcher]}
    mandatory: true
    run:
      - deidentify.py
      - {storlet: mark.py, parameters: {text: "for {user}, {metadata.study}", size: "3"}, on: proxy, limits: {memory: 64M}}
  - name: night
    when: {time: {from: "22:00", to: "06:00"}}
    deny: closed by night
  - name: own
    when: {user: ada}
    allow: true
"""
COVERED = """\
version: 1
rules:
  - name: logs
    when: {container: {glob: "log*"}}
    deny: no logs
  - name: web
    when: {container: logs-web}
    deny: no web logs
"""
#: An `allow` that takes some of a mandatory rule's requests is a warning.
DOUBTFUL = """\
version: 1
rules:
  - name: operators
    when: {roles: [operator]}
    allow: true
  - name: closed
    when: {container: secret}
    mandatory: true
    deny: secret
"""


# --- the documents --------------------------------------------------------------------------------


def test_there_are_the_five_worked_examples() -> None:
    assert [path.stem for path in EXAMPLES] == [
        "cold-logs",
        "deidentify",
        "exports-by-night",
        "thumbnails",
        "watermark",
    ]


@pytest.mark.parametrize("rules", EXAMPLES, ids=lambda path: path.stem)
def test_a_worked_example_has_no_findings_and_passes_its_cases(rules: Path, run: Run) -> None:
    checked = run("check", "--strict", str(rules))
    assert checked.code == 0, checked.out
    tried = run("test", "--json", str(rules), str(rules.with_suffix(".cases.yaml")))
    assert tried.code == 0, tried.out
    assert tried.data["rules_without_case"] == []
    assert len(tried.data["cases"]) >= 5
    assert any(case["rule"] is None for case in tried.data["cases"]), (
        "an example shows what it leaves alone, too"
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_worked_example_and_its_cases_are_on_the_page(path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in (path.name, f"{path.stem}.cases.yaml"):
        assert f".. literalinclude:: /examples/rules/{name}\n" in page


def test_the_output_on_the_page_is_that_of_the_command() -> None:
    shown = re.findall(
        r"\.\. code-block:: text\n\n((?: {3}.*\n|\n)+)", PAGE.read_text(encoding="utf-8")
    )
    assert len(shown) == 3
    for block in map(textwrap.dedent, shown):
        line, _, printed = block.replace("\\\n", " ").partition("\n")
        words = line.removeprefix("$ storlet ").split()
        done = subprocess.run(
            [sys.executable, "-m", "storlet_middleware.cli", *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert printed.strip() == done.stdout.strip(), done.stderr


def test_the_rules_and_the_cases_on_the_page_belong_together(run: Run, write: Write) -> None:
    blocks = re.findall(
        r"\.\. code-block:: yaml\n\n((?: {3}.*\n|\n)+)", PAGE.read_text(encoding="utf-8")
    )
    (rules,) = (textwrap.dedent(block) for block in blocks if "version: 1" in block)
    (told,) = (textwrap.dedent(block) for block in blocks if "expect:" in block)
    assert run("check", "--strict", write("rules.yaml", rules)).code == 0
    answer = run("test", "rules.yaml", write("cases.yaml", told))
    assert answer.code == 0, answer.out


def test_the_pieces_on_the_page_are_parts_of_rules(run: Run, write: Write) -> None:
    blocks = re.findall(
        r"\.\. code-block:: yaml\n\n((?: {3}.*\n|\n)+)", PAGE.read_text(encoding="utf-8")
    )
    pieces = [block for block in blocks if "version: 1" not in block and "expect:" not in block]
    assert len(pieces) >= 3
    for piece in pieces:
        body = textwrap.indent(textwrap.dedent(piece), "    ") + (
            "" if "run:" in piece else "    run: a.py\n"
        )
        answer = run(
            "check", "--strict", write("rules.yaml", f"version: 1\nrules:\n  - name: a\n{body}")
        )
        assert answer.code == 0, answer.out


def test_the_sample_has_no_findings_and_shows_every_fact_and_comparison(run: Run) -> None:
    path = ROOT / "etc/rules.yaml-sample"
    answer = run("check", "--strict", str(path))
    assert answer.code == 0, answer.out
    told = path.read_text(encoding="utf-8")
    unsaid = [name for name in TABLE if not re.search(rf"(?m)^(?!\s*#).*\b{name}:", told)]
    written = {
        Operator.EXACT,
        Operator.GLOB,
        Operator.PREFIX,
        Operator.SUFFIX,
        Operator.ONE_OF,
        Operator.AT_LEAST,
    }
    written |= {Operator.AT_MOST, Operator.PRESENT}
    unsaid += [operator.value for operator in written if f"{operator.value}:" not in told]
    assert unsaid == []


def test_the_reference_page_is_made_from_the_condition_table() -> None:
    page = (ROOT / "docs/reference/rules.rst").read_text(encoding="utf-8")
    assert page == reference.page(), "python3 -m rules.reference > docs/reference/rules.rst"
    printed = subprocess.run(
        [sys.executable, "-m", "rules.reference"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout == page
    for fact in TABLE.values():
        assert f"``{fact.name}``" in page
        assert fact.help in re.sub(r"\s+", " ", page)


# --- check ----------------------------------------------------------------------------------------


def test_valid_rules_exit_with_0(run: Run, write: Write) -> None:
    answer = run("check", write("rules.yaml", RULES))
    assert answer.code == 0
    assert answer.out.endswith("\nrules.yaml: 3 rules, no problems found\n")
    assert answer.out.startswith("rules.yaml:4:64: note [test.by-role]: ")


def test_all_faults_are_reported_with_position_and_correction(run: Run, write: Write) -> None:
    answer = run(
        "check",
        write("rules.yaml", "version: 1\nrules:\n  - name: a b\n    wen: {}\n    allow: true\n"),
    )
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert [line for line in lines if line.startswith("rules.yaml:3:11: error [value.bad]: 'a b' ")]
    assert [line for line in lines if line.startswith("rules.yaml:4:5: error [key.unknown]: ")]
    assert "    help: did you mean 'when'?" in lines
    assert lines[-1] == "rules.yaml: 2 errors, 0 warnings"


def test_a_rule_that_never_matches_is_shown_with_a_request(run: Run, write: Write) -> None:
    answer = run("check", write("rules.yaml", COVERED))
    assert answer.code == 1
    (finding,) = run("check", "--json", "rules.yaml").data["findings"]
    assert (finding["line"], finding["code"], finding["severity"]) == (
        6,
        "rule.never-matches",
        "error",
    )
    assert f"rules.yaml:6:5: error [rule.never-matches]: {finding['text']}\n" in answer.out
    assert f"    help: {finding['help']}\n    example: {finding['example']}\n" in answer.out


def test_an_example_of_a_finding_can_be_explained_as_it_stands(run: Run, write: Write) -> None:
    shown = run("check", write("rules.yaml", COVERED)).out
    (words,) = re.findall(r"example: (.*)", shown)
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m storlet_middleware.cli rules explain rules.yaml --request {words}"],
        env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "decision: rule logs: deny: no logs" in done.stdout, done.stderr


def test_warnings_are_accepted_but_for_strict(run: Run, write: Write) -> None:
    file = write("rules.yaml", DOUBTFUL)
    answer = run("check", file)
    assert answer.code == 0
    assert "rules.yaml:6:5: warning [mandatory.allowed-past]: " in answer.out
    assert answer.out.endswith("rules.yaml: 2 rules, 0 errors, 1 warning\n")
    assert run("check", "--strict", file).code == 1


def test_a_check_has_the_same_content_as_json(run: Run, write: Write) -> None:
    answer = run("check", "--json", write("rules.yaml", RULES))
    assert answer.code == 0
    assert re.fullmatch("[0-9a-f]{64}", answer.data.pop("version"))
    assert answer.data["rules"] == 3
    assert (answer.data["errors"], answer.data["warnings"]) == (0, 0)
    (note,) = answer.data["findings"]
    assert (note["severity"], note["code"]) == ("note", "test.by-role")
    broken = run("check", "--json", write("broken.yaml", "version: 2\nrules: []\n"))
    assert (broken.code, broken.data["rules"], broken.data["errors"]) == (1, None, 1)


def test_rules_may_come_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(COVERED.encode())))
    answer = run("check", "-")
    assert answer.code == 1
    assert answer.out.startswith("<stdin>:6:5: error [")


def test_json_is_yaml(run: Run, write: Write) -> None:
    told = {"version": 1, "rules": [{"name": "a", "when": {"method": ["GET"]}, "deny": "no"}]}
    assert run("check", write("rules.json", json.dumps(told))).code == 0


@pytest.mark.parametrize("name", ["none.yaml", "."])
def test_a_file_that_cannot_be_read_is_an_error_without_a_traceback(
    name: str, run: Run, write: Write
) -> None:
    write("other.yaml", "")
    for words in (
        ["check", name],
        ["test", name, "other.yaml"],
        ["explain", name, "--request", "method=GET"],
    ):
        answer = run(*words)
        assert answer.code == 3
        assert answer.err.startswith(f"storlet: {name} cannot be read: ")
        assert answer.out == ""


def test_a_file_without_end_is_not_read_to_its_end(run: Run) -> None:
    answer = run("check", "/dev/zero")
    assert answer.code == 1
    assert f"longer than {MAX_BYTES:,} bytes" in answer.out


@pytest.mark.parametrize(
    "words",
    [[], ["chekk", "x"], ["check"], ["test", "x"], ["explain", "x"], ["check", "--all", "x"]],
)
def test_unknown_arguments_exit_with_2(words: list[str], run: Run) -> None:
    assert run(*words).code == 2


@pytest.mark.parametrize("words", [[], ["check"], ["test"], ["explain"], ["who-can"], ["diff"]])
def test_help_is_there_with_an_example(words: list[str], run: Run) -> None:
    answer = run(*words, "--help")
    assert answer.code == 0
    assert "usage: storlet rules" in answer.out
    assert f"\n  storlet rules {' '.join(words)}" in answer.out


def test_the_help_states_its_limits(run: Run) -> None:
    assert "it does not know which storlets exist" in run("--help").out


def test_every_warning_about_mandatory_rules_is_on_the_page() -> None:
    page = REFERENCE.read_text(encoding="utf-8")
    codes = re.findall(
        r"(?m)^``((?:mandatory|rule)\.[a-z-]+)``\s+warning", consistency.__doc__ or ""
    )
    assert len(codes) == 4
    assert [code for code in codes if f"``{code}``" not in page] == []


def test_names_in_rules_cannot_steer_the_terminal(run: Run, write: Write) -> None:
    answer = run("check", write("rules.yaml", COVERED.replace("web\n", "web\n    \u202ewen: {}\n")))
    assert answer.code == 1
    assert "\u202e" not in answer.out
    assert "\\u202e" in answer.out


# --- test -----------------------------------------------------------------------------------------

CASES = """\
- name: a researcher's GET goes through two storlets
  request: {method: GET, container: patients-1, object: a.csv, user: eve, roles: [researcher], time: mon 12:00}
  expect: {rule: deidentify, action: run, storlets: [deidentify.py, mark.py]}
- name: by night nobody gets in
  request: {container: logs, user: ada, time: mon 23:00}
  expect: {action: deny}
- name: ada may by day
  request: {container: logs, user: ada, time: "mon 12:00"}
  expect: {rule: own, action: allow, storlets: []}
- name: nothing is said of bob
  request: {container: logs, object: a, user: bob, size: 2K, metadata: {count: 12}, header.x-a: b}
  expect: {rule: null, action: none}
"""


def test_cases_that_are_as_expected_are_listed_and_counted(run: Run, write: Write) -> None:
    answer = run("test", write("rules.yaml", RULES), write("cases.yaml", CASES))
    assert answer.code == 0, answer.out
    assert answer.out.splitlines() == [
        "ok    a researcher's GET goes through two storlets",
        "ok    by night nobody gets in",
        "ok    ada may by day",
        "ok    nothing is said of bob",
        "cases.yaml: 4 cases, all as expected",
    ]


@pytest.mark.parametrize(
    ("field", "wanted", "said"),
    [
        ("rule", "own", "rule: expected own, got deidentify"),
        ("rule", "null", "rule: expected no rule, got deidentify"),
        ("action", "deny", "action: expected deny, got run"),
        (
            "storlets",
            "[mark.py, deidentify.py]",
            "storlets: expected [mark.py, deidentify.py], got [deidentify.py, mark.py]",
        ),
        ("storlets", "[]", "storlets: expected [], got [deidentify.py, mark.py]"),
    ],
)
def test_a_failed_case_shows_the_difference_and_its_reason(
    field: str, wanted: str, said: str, run: Run, write: Write
) -> None:
    told = f"- name: a researcher\n  request: {{container: patients-1, roles: researcher}}\n  expect: {{{field}: {wanted}}}\n"
    answer = run("test", write("rules.yaml", RULES), write("cases.yaml", told))
    assert answer.code == 1
    lines = [line.strip() for line in answer.out.splitlines()]
    assert lines[:3] == ["FAIL  a researcher", "cases.yaml:1:3", said]
    assert lines[3] == "request: method=GET container=patients-1 roles=researcher"
    assert lines[4].startswith("rule deidentify (line 3) matches: ")
    assert lines[-1] == "cases.yaml: 1 case, 1 failed"


def test_rules_without_a_case_are_named(run: Run, write: Write) -> None:
    told = "- {name: a, request: {user: ada}, expect: {rule: own}}\n"
    answer = run("test", write("rules.yaml", RULES), write("cases.yaml", told))
    assert answer.code == 0
    assert "no case is decided by deidentify, night\n" in answer.out


def test_a_test_has_the_same_content_as_json(run: Run, write: Write) -> None:
    told = CASES.replace("action: deny", "action: allow")
    answer = run("test", "--json", write("rules.yaml", RULES), write("cases.yaml", told))
    assert answer.code == 1
    assert [case["passed"] for case in answer.data["cases"]] == [True, False, True, True]
    failed = answer.data["cases"][1]
    assert (failed["rule"], failed["action"], failed["storlets"]) == ("night", "deny", [])
    assert failed["expected"] == {"action": "allow"}
    assert failed["request"] == {
        "method": "GET",
        "container": "logs",
        "user": "ada",
        "time": "mon 23:00",
    }
    assert failed["line"] == 4
    assert failed["explanation"][-1] == "decision: rule night: deny: closed by night"
    assert answer.data["rules_without_case"] == []


def test_a_case_that_expects_an_unknown_rule_names_the_nearest(run: Run, write: Write) -> None:
    told = "- {name: a, request: {user: ada}, expect: {rule: deidentfy}}\n"
    answer = run("test", write("rules.yaml", RULES), write("cases.yaml", told))
    assert answer.code == 1
    assert answer.out.startswith("cases.yaml:1:3: error [case.rule]: ")
    assert "    help: did you mean 'deidentify'?\n" in answer.out


def test_errors_of_rules_are_reported_before_any_case(run: Run, write: Write) -> None:
    for words in (
        ["test", "rules.yaml", "cases.yaml"],
        ["explain", "rules.yaml", "--request", "user=ada"],
    ):
        write("cases.yaml", CASES)
        answer = run(*words[:1], write("rules.yaml", "version: 1\nrules: no\n"), *words[2:])
        assert answer.code == 1
        assert answer.out.startswith("rules.yaml:2:8: error [value.type]: ")
        assert "ok " not in answer.out
        assert run(*words, "--json").data["findings"][0]["code"] == "value.type"


def test_all_faults_of_a_file_of_cases_are_reported_at_once(run: Run, write: Write) -> None:
    told = """\
- name: a
  request: {kontainer: x, size: big}
  expect: {acton: run}
- name: a
  expect: {action: go}
- request: {user: null}
  expect: {}
  name: b
- just a text
- {name: c, request: [], expect: {storlets: a.py}}
"""
    answer = run("test", write("rules.yaml", RULES), write("cases.yaml", told))
    assert answer.code == 1
    found = re.findall(r"(?m)^cases\.yaml:(\d+):\d+: error \[([a-z.]+)\]", answer.out)
    assert found == [
        ("2", "case.request"),
        ("2", "case.request"),
        ("3", "key.unknown"),
        ("4", "case"),
        ("6", "case.request"),
        ("7", "case"),
        ("9", "value.type"),
        ("10", "value.type"),
        ("10", "case"),
    ]
    assert "did you mean 'container'?" in answer.out
    assert "did you mean 'action'?" in answer.out


def test_an_unknown_action_is_reported_with_the_known_ones(run: Run, write: Write) -> None:
    told = "- {name: a, request: {user: ada}, expect: {action: denied}}\n"
    answer = run("test", write("rules.yaml", RULES), write("cases.yaml", told))
    assert answer.code == 1
    assert "did you mean 'deny'?" in answer.out


@pytest.mark.parametrize("told", ["", "# nothing\n", "[]\n", "{}\n", "a: b\n"])
def test_a_file_without_cases_is_no_success(told: str, run: Run, write: Write) -> None:
    answer = run("test", write("rules.yaml", RULES), write("cases.yaml", told))
    assert answer.code == 1
    assert "error [case]: a file of cases must be a non-empty list" in answer.out


def test_two_cases_with_one_name_are_refused(run: Run, write: Write) -> None:
    told = "- &a {name: a}\n"
    one = "- {name: a, request: {user: ada}, expect: {rule: own}}\n"
    answer = run("test", write("rules.yaml", RULES), write("cases.yaml", one + one))
    assert answer.code == 1
    assert "cases.yaml:2:3: error [case]: the case in line 1 is also named 'a'" in answer.out
    assert run("test", "rules.yaml", write("cases.yaml", told)).code == 1


def test_rules_and_cases_cannot_both_be_standard_input(run: Run) -> None:
    assert run("test", "-", "-").code == 2


# --- explain --------------------------------------------------------------------------------------


def test_the_rule_that_decides_and_what_would_run_are_explained(run: Run, write: Write) -> None:
    answer = run(
        "explain", write("rules.yaml", RULES), "--request", "container=patients-1", "object=a.csv", "user=eve",
        "roles=member", "roles=researcher", "--request", "metadata.study=7",
    )  # fmt: skip
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("rule deidentify (line 3) matches: ")
    assert "decision: mandatory rule deidentify: run deidentify.py" in lines
    assert lines[-1] == (
        "decision: mandatory rule deidentify: then run mark.py on the proxy"
        " with parameters text='for eve, 7', size='3' with limits memory=64M"
    )


def test_a_request_for_a_storlet_is_explained(run: Run, write: Write) -> None:
    file, asked = write("rules.yaml", RULES), "header.x-run-storlet=mine.py"
    answer = run(
        "explain", file, "--request", "container=patients-1", "object=a", "roles=researcher", asked
    )
    assert answer.out.endswith(
        "decision: mine.py, which the client requests, is refused, and so is the request\n"
    )
    answer = run("explain", file, "--request", "time=tue 23:00", "user=ada", asked)
    assert (
        "rule night (line 9) matches but gives way to the storlet that the client requests: time is"
        in answer.out
    )
    assert answer.out.endswith(
        "decision: rule own: the request proceeds as without rules\n"
        "decision: mine.py, which the client requests, runs as without rules\n"
    )
    told = "- {name: a, request: {time: tue 23:00, user: ada, header: {x-run-storlet: mine.py}}, expect: {rule: own}}\n"
    assert run("test", file, write("cases.yaml", told)).code == 0


def test_a_missing_value_of_a_parameter_is_reported(run: Run, write: Write) -> None:
    answer = run(
        "explain",
        write("rules.yaml", RULES),
        "--request",
        "container=patients-1",
        "object=a",
        "roles=researcher",
    )
    assert answer.out.endswith(
        "deidentify: text of mark.py cannot be rendered: {user} is missing, so the request is refused\n"
    )


def test_rules_that_do_not_match_show_the_failed_test(run: Run, write: Write) -> None:
    answer = run("explain", write("rules.yaml", RULES), "--request", "user=bob", "time=mon 12:00")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("rule deidentify (line 3) does not match: container is missing")
    assert lines[1].startswith("rule night (line 9) does not match: time is mon 12:00")
    assert lines[2].startswith("rule own (line 12) does not match: user is 'bob'")
    assert lines[3].startswith("no rule matches")


def test_a_name_that_is_unknown_comes_with_the_nearest_and_every_fault_at_once(
    run: Run, write: Write
) -> None:
    answer = run(
        "explain", write("rules.yaml", RULES), "--request", "kontainer=x", "size=big", "what"
    )
    assert answer.code == 2
    assert answer.out == ""
    assert "'what' is not name=value" in answer.err
    answer = run("explain", "rules.yaml", "--request", "kontainer=x", "size=big")
    assert answer.code == 2
    assert answer.err.splitlines() == [
        "storlet: --request: unknown fact 'kontainer'; did you mean 'container'?",
        "storlet: --request: size must be a number of bytes, such as 2048 or 2K",
    ]


def test_an_explanation_has_the_same_content_as_json(run: Run, write: Write) -> None:
    file = write("rules.yaml", RULES)
    words = ["container=patients-1", "object=a", "user=eve", "roles=researcher"]
    data = run("explain", "--json", file, "--request", *words).data
    assert (data["rule"], data["line"], data["action"], data["mandatory"]) == (
        "deidentify",
        3,
        "run",
        True,
    )
    assert data["steps"][0] == {
        "storlet": "deidentify.py", "on": None, "limits": {}, "parameters": {}, "missing": {}
    }  # fmt: skip
    assert data["steps"][1] == {
        "storlet": "mark.py", "on": "proxy", "limits": {"memory": "64M"}, "parameters": {"size": "3"},
        "missing": {"text": "metadata.study"},
    }  # fmt: skip
    (first,) = data["considered"]
    assert (first["rule"], first["matches"], data["not_considered"]) == ("deidentify", True, 2)
    assert "container is 'patients-1' (required: prefix 'patients-')" in first["because"]
    assert (data["pass"], data["asked_for"], data["undecided"], first["gives_way"]) == (
        None,
        None,
        [],
        False,
    )
    denied = run("explain", "--json", file, "--request", "time=mon 23:00").data
    assert (denied["rule"], denied["action"], denied["message"]) == (
        "night",
        "deny",
        "closed by night",
    )
    nothing = run("explain", "--json", file, "--request", "method=PUT").data
    assert (nothing["rule"], nothing["line"], nothing["action"], nothing["steps"]) == (
        None,
        None,
        "none",
        [],
    )
    assert [one["matches"] for one in nothing["considered"]] == [False, False, False]


# --- the command as a whole -----------------------------------------------------------------------


def test_it_starts_without_swift_docker_and_eventlet() -> None:
    """They take long to import, and rules are written on machines that have none of them."""
    code = (
        "import sys; import storlet_middleware.cli.__main__;"
        "sys.exit(' '.join({'swift', 'docker', 'eventlet'} & set(sys.modules)) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_a_finding_without_an_example_has_no_line_for_it(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding(Severity.WARNING, "some.code", Place(2, 3), "something", "mend it")

    def check(rules: RuleSet, storlets: object) -> tuple[Finding, ...]:
        return (finding,)

    monkeypatch.setattr(command.consistency, "check", check)
    answer = run("check", write("rules.yaml", RULES))
    assert answer.out.splitlines()[:-1] == [
        "rules.yaml:2:3: warning [some.code]: something",
        "    help: mend it",
    ]


AUDITED = "version: 1\nrules:\n- {name: shut, mode: audit, deny: closed}\n"


def test_an_audited_rule_is_explained_apart(run: Run, write: Write) -> None:
    answer = run("explain", write("rules.yaml", AUDITED), "--request", "container=c")
    assert answer.code == 0
    assert answer.out.splitlines()[-1] == "audited rule shut would deny: closed"


def test_a_case_cannot_expect_an_audited_rule(run: Run, write: Write) -> None:
    cases = write("cases.yaml", "- {name: it, request: {container: c}, expect: {rule: shut}}\n")
    answer = run("test", write("rules.yaml", AUDITED), cases)
    assert answer.code == 1
    assert "expects the audited rule 'shut', which decides nothing" in answer.out
