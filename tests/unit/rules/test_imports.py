"""The dependencies of the ``rules`` library (Python and a YAML reader), and its packages' maps."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

import rules

_ROOT = Path(rules.__file__).parent
_FILES = sorted(_ROOT.glob("**/*.py"))


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_a_module_imports_the_standard_library_and_yaml_only(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names | {"rules", "yaml"}


@pytest.mark.parametrize("package", ["rules", "rules.check"])
def test_the_docstring_of_a_package_lists_each_of_its_modules_once(package: str) -> None:
    module = importlib.import_module(package)
    folder = Path(str(module.__file__)).parent
    modules = {path.stem for path in folder.glob("*.py")} | {
        path.parent.name for path in folder.glob("*/__init__.py")
    }
    listed = re.findall(r"^ *``(\w+)``  +\S", module.__doc__ or "", re.MULTILINE)
    assert sorted(listed) == sorted(modules - {"__init__"})
