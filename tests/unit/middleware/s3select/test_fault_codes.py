"""Codes of faults and their statuses; a storlet cannot make up a code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from storlet_middleware.s3select.fault_codes import CODES, SelectFault, answer_of, known

ROOT = Path(__file__).resolve().parents[4]
#: Codes in the sources, where an error is made.
IN_SOURCES = re.compile(
    r"""(?:SelectError|SelectFault|\b_?fault|raised)\(\s*"(\w+)"|\bwant\("[^"]+", "(\w+)"\)"""
)


@pytest.mark.parametrize(("code", "status"), [("CastFailed", 400), ("InternalError", 500)])
def test_the_answer_has_the_code_and_the_status(code: str, status: int) -> None:
    answer = answer_of(SelectFault(code, "some\x00text"))
    assert (answer.status_int, answer._code, answer._msg) == (status, code, "some\ufffdtext")


def test_a_code_that_is_not_known_is_a_defect() -> None:
    assert known("CastFailed") == "CastFailed"
    assert known("AccessDenied") == "InternalError"
    assert answer_of(SelectFault("AccessDenied", "x")).status_int == 500


def test_the_table_has_the_codes_of_the_sources() -> None:
    folders = [
        ROOT / "storlets/std/s3-select/src",
        ROOT / "storlets/std/s3-select-parquet/src",
        ROOT / "storlet_middleware/s3select",
    ]
    sources = "".join(path.read_text() for folder in folders for path in folder.glob("*.py"))
    used = {code for codes in IN_SOURCES.findall(sources) for code in codes if code}
    assert len(used) > 50
    assert used <= CODES, used - CODES
