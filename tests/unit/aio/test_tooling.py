"""The tooling as a whole: standard library only, no side effects, every command known."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: The modules of the tooling, and those of the product that it shares.
SHARED = {"storlet_middleware.trial_host": ROOT / "storlet_middleware/trial_host.py"}
MODULES = [*sorted((ROOT / "storlet_middleware/aio").glob("*.py")), *SHARED.values()]
COMMANDS = ("up", "down", "status", "demo", "start", "stop", "check", "test", "box")


def top_level_imports(path: Path) -> set[str]:
    """Names of foreign packages that are imported when the module is."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            ours = {f"{module}.{alias.name}" for alias in node.names} & set(SHARED)
            names |= ours or {module.partition(".")[0]}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_needs_the_standard_library_only(path: Path) -> None:
    assert top_level_imports(path) <= {*sys.stdlib_module_names, *SHARED}


def test_help_works_with_a_bare_python_and_names_every_command() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from storlet_middleware.aio.__main__ import main; main(['-h'])"
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    assert [name for name in COMMANDS if f"    {name} " not in done.stdout] == []


def test_the_makefile_has_a_target_for_each_promised_command() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = (
        next(line for line in text.splitlines() if line.startswith("demo up")).rstrip(":").split()
    )
    assert targets == ["demo", "up", "down", "status", "test", "check", "matrix"]


def test_importing_changes_nothing(tmp_path: Path) -> None:
    code = "import os; before = dict(os.environ); import storlet_middleware.aio.cluster; assert dict(os.environ) == before"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("storlets", "storlet_middleware.filter:filter_factory"),
        ("s3_headers", "storlet_middleware.wsgi.s3_headers:filter_factory"),
        ("storlet-sandboxd", "storlet_middleware.sandboxd.__main__:main"),
    ],
)
def test_an_entry_point_can_be_imported(name: str, value: str) -> None:
    assert f"{name} = {value}" in (ROOT / "setup.py").read_text(encoding="utf-8")
    assert callable(EntryPoint(name, value, "any").load())


@pytest.mark.parametrize(
    "name",
    [
        "requirements.txt",
        "requirements-test.txt",
        "requirements-bench.txt",
        "requirements-keystone.txt",
    ],
)
def test_every_requirement_is_an_exact_version(name: str) -> None:
    lines = [
        line
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert lines
    assert [line for line in lines if line.count("==") != 1] == []
