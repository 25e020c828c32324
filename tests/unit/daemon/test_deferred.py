"""Modules that are imported on first use, and not held by an idle sandbox."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from storlet_daemon.deferred import deferred

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that nothing has imported."""
    (tmp_path / "large_module.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "large_module", raising=False)
    return "large_module"


def test_a_module_is_imported_when_something_of_it_is_used(module: str) -> None:
    with deferred(module):
        stand_in = __import__(module)
    assert module not in sys.modules
    assert stand_in.value == 7
    assert sys.modules.pop(module) is not stand_in


def test_it_may_be_used_before_the_others_are_imported(module: str) -> None:
    with deferred(module):
        assert __import__(module).value == 7
    assert sys.modules.pop(module).value == 7


def test_a_later_import_gets_the_module_itself(module: str) -> None:
    with deferred(module):
        stand_in = __import__(module)
    assert type(__import__(module)) is type(sys) is not type(stand_in)
    del sys.modules[module]


def test_a_missing_attribute_raises_as_usual(module: str) -> None:
    with deferred(module):
        stand_in = __import__(module)
    with pytest.raises(AttributeError, match="'large_module' has no attribute 'other'"):
        _ = stand_in.other
    del sys.modules[module]


def test_a_loaded_module_is_not_replaced() -> None:
    with deferred("sys"):
        assert __import__("sys") is sys
    assert sys.modules["sys"] is sys


def in_a_supervisor(code: str) -> list[str]:
    """The words that ``code`` prints in a fresh interpreter after the imports of process 1."""
    path = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})"
    whole = f"{path}\nimport storlet_daemon.__main__, storlet_daemon.supervisor\n{code}"
    command = [sys.executable, "-I", "-S", "-B", "-c", whole]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_a_supervisor_imports_nothing_large_that_it_has_no_use_for() -> None:
    loaded = in_a_supervisor("print(*sys.modules)")
    large = {
        "argparse",
        "ast",
        "asyncio",
        "inspect",
        "logging",
        "pathlib",
        "random",
        "shutil",
        "subprocess",
        "tempfile",
    }
    if sys.version_info >= (3, 12):
        # Its dataclasses use inspect for each class.
        large -= {"ast", "inspect"}
    assert "dataclasses" in loaded
    assert not large.intersection(loaded)


def test_a_storlet_can_use_the_deferred_modules() -> None:
    code = "import dataclasses; print(dataclasses.make_dataclass('Point', ['x', 'y']).__doc__)"
    assert in_a_supervisor(code)[0] == "Point(x:"
    assert in_a_supervisor("import inspect; print(inspect.isclass(int))") == ["True"]
