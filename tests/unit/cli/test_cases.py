"""The file of cases for ``storlet rules test``."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rules import text
from rules.model import Severity
from storlet_middleware.cli import cases


@settings(max_examples=200)
@given(
    st.binary(max_size=60) | st.text("-{}[]: \nanmerqustxpc,&*!|>'\"", max_size=80).map(str.encode)
)
@example(b"- {name: a, request: {method: 1}, expect: {rule: a}}")
@example(
    b"- {name: a, request: {time: mon 24:00, roles: {a: b}, metadata: a}, expect: {rule: [a]}}"
)
@example(b"- {name: [a], request: {? [a] : b}, expect: {rule: null}}")
def test_no_file_of_cases_breaks_the_reader(raw: bytes) -> None:
    read, faults = cases.read(raw)
    assert read or faults
    assert all(fault.severity is Severity.ERROR and fault.place.line >= 1 for fault in faults)


CASE = "- {name: a, request: {user: ada}, expect: {rule: own, storlets: [x.py]}}"


def test_only_the_listed_fields_are_compared() -> None:
    (case,), faults = cases.read(CASE.encode())
    assert not faults
    assert case.differences(cases.Outcome("own", "deny", ("x.py",))) == {}
    assert case.differences(cases.Outcome("other", "run", ("x.py",))) == {"rule": "own"}
    assert case.differences(cases.Outcome()) == {"rule": "own", "storlets": ("x.py",)}


def test_null_expects_that_no_rule_matches() -> None:
    (case,), _ = cases.read(b"- {name: a, request: {user: ada}, expect: {rule: null}}")
    assert case.differences(cases.Outcome()) == {}
    assert case.differences(cases.Outcome("own", "allow")) == {"rule": None}


def test_a_case_with_a_fault_is_omitted_and_the_others_are_read() -> None:
    read, faults = cases.read(f"- {{name: broken}}\n{CASE}\n".encode())
    assert [case.name for case in read] == ["a"]
    assert [(fault.code, fault.place.line) for fault in faults] == [("case", 1)]


def test_a_file_that_is_too_large_gets_the_correction_for_cases() -> None:
    _, (fault,) = cases.read(b"#" * (text.MAX_BYTES + 1))
    assert fault.text == f"the cases are longer than {text.MAX_BYTES:,} bytes"
    assert "several files" in fault.help
