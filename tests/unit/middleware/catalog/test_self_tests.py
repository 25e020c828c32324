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
    """A child process wants a descriptor."""
    run = self_tests.child.run
    monkeypatch.setattr(
        self_tests.child, "run", lambda module, given, *more: run(module, given.read(), *more)
    )


def test_cases_have_the_content_of_their_files() -> None:
    several = {"name": "both", "input": ["in.txt", "out.txt"], "error": "storlet.failed"}
    one, both = read([ROW, several], FILES)
    assert (one.inputs, one.output) == ((FILES["in.txt"],), FILES["out.txt"])
    assert one.parameters == {"n": "2", "a": "true"}
    assert (both.inputs, both.output) == (tuple(FILES.values()), None)
    assert both.error == "storlet.failed"


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


CASE = Case("a", (b"",), output=b"one\ntwo\n", output_name="out.txt", metadata={"k": "v"})


@pytest.mark.parametrize(
    ("got", "text"),
    [
        (Outcome(output=b"one\ntwo\n", metadata={"k": "v", "more": "1"}), ""),
        (Outcome(output=b"one\ntwo\n"), "metadata k: want 'v', there is none"),
        (Outcome(output=b"one\ntwo\n", metadata={"k": "w"}), "metadata k: want 'v', got 'w'"),
        (Outcome("storlet.failed", "ValueError: no"), "storlet.failed: ValueError: no"),
        (
            Outcome(output=b"one\ntwi\n", metadata={"k": "v"}),
            "the output differs from out.txt at byte 6, line 2: want 'two', got 'twi'",
        ),
        (
            Outcome(output=b"one\n", metadata={"k": "v"}),
            "the output differs from out.txt at byte 4, line 2: want 'two', got the end",
        ),
        (
            Outcome(output=b"one\ntwo\nt", metadata={"k": "v"}),
            "the output differs from out.txt at byte 8, line 3: want the end, got 't'",
        ),
    ],
)
def test_differences_are_short(got: Outcome, text: str) -> None:
    assert differences(CASE, got) == text


def test_expected_error_is_compared_by_its_code() -> None:
    case = Case("a", (b"",), error="storlet.failed")
    assert differences(case, Outcome("storlet.failed", "any")) == ""
    assert differences(case, Outcome()) == "want storlet.failed, got ok"
    assert "got storlet.load: x" in differences(case, Outcome("storlet.load", "x"))


def test_many_and_long_differences_are_cut() -> None:
    case = Case("a", (b"",), output=b"a" * 9000, metadata={f"k{n}": "v" * 900 for n in range(50)})
    text = differences(case, Outcome(output=b"b" * 9000))
    assert len(text) <= 2000
    assert text.count("metadata k") < 6
