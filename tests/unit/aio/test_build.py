"""The parts for the first stages of ``Dockerfile``, and the files that their build needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from storlet_middleware.aio import build
from storlet_middleware.aio.home import CHECKOUT
from storlet_middleware.aio.progress import AioError

#: Imports the build, and prints the names of our modules that it has loaded.
LOADED = """
import sys
import storlet_middleware.aio.build
print(*(name for name in sys.modules if name.startswith("storlet_middleware.aio.")))
"""


@pytest.mark.parametrize(("with_code", "environment"), [(True, "code"), (False, "deps")])
def test_the_parts_are_built_with_our_packages_or_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, with_code: bool, environment: str
) -> None:
    built: list[str] = []
    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path))
    for module, name in (
        ("venv", "code"),
        ("venv", "deps"),
        ("venv", "data"),
        ("java", "parts"),
        ("native", "parts"),
    ):
        label = name if module == "venv" else module
        done = lambda _log, label=label: built.append(label)  # noqa: E731
        monkeypatch.setattr(getattr(build, module), name, done)
    build.build_parts(with_code=with_code)
    assert built == [environment, "data", "java", "native"]


def test_a_build_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_log: Path) -> None:
        raise AioError("no compiler")

    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path))
    monkeypatch.setattr(build.venv, "deps", fail)
    assert build.main() == 1
    assert "no compiler" in capsys.readouterr().err


def test_the_dockerfile_copies_those_modules_that_the_libraries_need(tmp_path: Path) -> None:
    """The build of the libraries starts with them, and no other module repeats it."""
    text = (CHECKOUT / "Dockerfile").read_text(encoding="utf-8")
    first = text.partition("cp -a --parents")[2].partition("/some")[0].split()
    files = [word for word in first if word.endswith(".py")]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    found = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()
    paths = {f"{name.replace('.', '/')}.py" for name in found}
    assert {*files} == paths | {"storlet_middleware/aio/__init__.py"}
