"""The test cases of a bundle: read in a child process, compared with runs."""

from __future__ import annotations

import io
from typing import Any

import pytest

from storlet_middleware.catalog import self_tests
from storlet_middleware.catalog.self_tests import Case, Outcome, cases_of, differences
from storlet_middleware.errors import NodeBusy, RegistrationCheckFailed
from tests.support.bundles import tool

ROW = {"name": "apples", "input": "in.txt", "output": "out.txt", "parameters": {"n": 2, "a": True}}
FILES = {"in.txt": b"one\ntwo\n", "out.txt": b"two\n"}


def read(rows: list[dict[str, Any]], files: dict[str, bytes]) -> list[Case]:
    return cases_of(io.BytesIO(tool("tool", tests=rows, test_files=files)))


@pytest.fixture(autouse=True)
def _packed_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child process requires a descriptor."""
    run = self_tests.child.run
    monkeypatch.setattr(
        self_tests.child, "run", lambda module, given, *more: run(module, given.read(), *more)
    )


def test_cases_have_the_content_of_their_files() -> None:
    several = {"name": "both", "input": ["in.txt", "out.txt"], "error": "storlet.failed"}
    one, both = read([ROW, several], FILES)
    assert (one.inputs, one.outputs) == ((FILES["in.txt"],), (("out.txt", FILES["out.txt"]),))
    assert one.parameters == {"n": "2", "a": "true"}
    assert (both.inputs, both.outputs) == (tuple(FILES.values()), ())
    assert both.error == "storlet.failed"


def test_a_case_has_the_outputs_of_the_manifest_and_as_many_as_it_names() -> None:
    pair = {**ROW, "name": "pair", "output": ["out.txt", "in.txt"]}
    packed = tool("tool", tests=[ROW, pair], test_files=FILES, outputs={"count": 1, "max": 3})
    one, both = cases_of(io.BytesIO(packed))
    assert (one.output_count, both.output_count) == (1, 2)
    assert both.outputs == (("out.txt", FILES["out.txt"]), ("in.txt", FILES["in.txt"]))
    (three,) = cases_of(
        io.BytesIO(tool("tool", tests=[ROW], test_files=FILES, outputs={"count": 3}))
    )
    assert three.output_count == 3


def test_cases_that_are_not_for_uploads_are_left_out() -> None:
    assert [case.name for case in read([ROW, {**ROW, "name": "b", "upload": False}], FILES)] == [
        "apples"
    ]


def test_bundle_without_cases_has_none() -> None:
    assert cases_of(io.BytesIO(tool("tool"))) == []


def test_older_bundle_without_files_names_what_is_missing() -> None:
    with pytest.raises(RegistrationCheckFailed, match=r"'apples': .* 'in.txt': build it again"):
        read([ROW], {})


def test_child_process_that_does_not_end_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def expire(*_: Any) -> Any:
        raise self_tests.WaitExpired

    monkeypatch.setattr(self_tests.child, "run", expire)
    with pytest.raises(NodeBusy):
        read([ROW], FILES)


CASE = Case("a", (b"",), outputs=(("out.txt", b"one\ntwo\n"),), metadata={"k": "v"})


@pytest.mark.parametrize(
    ("got", "text"),
    [
        (Outcome(outputs=(b"one\ntwo\n",), metadata={"k": "v", "more": "1"}), ""),
        (Outcome(outputs=(b"one\ntwo\n",)), "metadata k: want 'v', there is none"),
        (Outcome(outputs=(b"one\ntwo\n",), metadata={"k": "w"}), "metadata k: want 'v', got 'w'"),
        (Outcome("storlet.failed", "ValueError: no"), "storlet.failed: ValueError: no"),
        (
            Outcome(outputs=(b"one\ntwi\n",), metadata={"k": "v"}),
            "the output differs from out.txt at byte 6, line 2: want 'two', got 'twi'",
        ),
        (
            Outcome(outputs=(b"one\n",), metadata={"k": "v"}),
            "the output differs from out.txt at byte 4, line 2: want 'two', got the end",
        ),
        (
            Outcome(outputs=(b"one\ntwo\nt",), metadata={"k": "v"}),
            "the output differs from out.txt at byte 8, line 3: want the end, got 't'",
        ),
    ],
)
def test_differences_are_short(got: Outcome, text: str) -> None:
    assert differences(CASE, got) == text


def test_each_named_output_is_compared() -> None:
    case = Case("a", (b"",), outputs=(("one", b"1"), ("two", b"2")), output_count=3)
    assert differences(case, Outcome(outputs=(b"1", b"2"))) == ""
    assert differences(case, Outcome(outputs=(b"1", b"3"))) == (
        "the output differs from two at byte 0, line 1: want '2', got '3'"
    )


def test_expected_error_is_compared_by_its_code() -> None:
    case = Case("a", (b"",), error="storlet.failed")
    assert differences(case, Outcome("storlet.failed", "any")) == ""
    assert differences(case, Outcome()) == "want storlet.failed, got ok"
    assert "got storlet.load: x" in differences(case, Outcome("storlet.load", "x"))


def test_many_and_long_differences_are_cut() -> None:
    metadata = {f"k{n}": "v" * 900 for n in range(50)}
    case = Case("a", (b"",), outputs=(("out.txt", b"a" * 9000),), metadata=metadata)
    text = differences(case, Outcome(outputs=(b"b" * 9000,)))
    assert len(text) <= 2000
    assert text.count("metadata k") < 6
