"""``SPECIFICATION.rst`` and ``SECURITY.rst`` name tests: each exists, and each promise names
one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("SPECIFICATION.rst", "SECURITY.rst")
#: ``tests/probe/test_x.py::test_y`` or a whole file; continued names begin with ``::``.
NAMED = re.compile(r"``(tests/[a-z_/]+\.py)?(?:::(test_[a-z0-9_]+))?``")
ROW = re.compile(r"^   \* - ", re.MULTILINE)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def named_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists(page: str) -> None:
    missing = []
    file = ""
    for match in NAMED.finditer(text_of(page)):
        file = match[1] or file
        if not (ROOT / file).is_file():
            missing.append(file)
        elif match[2] and match[2] not in named_in(ROOT / file):
            missing.append(f"{file}::{match[2]}")
    assert missing == []


def test_every_promise_names_a_test() -> None:
    text = text_of("SPECIFICATION.rst")
    rows = [row for table in text.split(".. list-table::")[1:] for row in ROW.split(table)[2:]]
    assert len(rows) > 5
    assert [
        row.splitlines()[0] for row in rows if not NAMED.search(row) and "``make " not in row
    ] == []
