"""``rules`` is a library that others can use: it needs Python and a reader of YAML, nothing else."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import rules

_FILES = sorted(Path(rules.__file__).parent.glob("**/*.py"))


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_a_module_imports_the_standard_library_and_yaml_only(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names | {"rules", "yaml"}
