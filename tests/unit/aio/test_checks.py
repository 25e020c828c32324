"""``make check`` and ``make test``: every checker runs, and a failure is never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.aio import checks
from storlet_middleware.aio.home import CHECKOUT


@pytest.fixture
def tools(tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tools whose Python records its arguments; it fails when one of them is ``fails``."""
    assert cache_dir.parent == tmp_path
    python = tmp_path / "tools/bin/python3"
    python.parent.mkdir(parents=True)
    script = f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ncase "$*" in *fails*) exit 3; esac\n'
    python.write_text(script, encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setattr(checks.venv, "tools", lambda _log: tmp_path / "tools")
    monkeypatch.setattr(checks.packages, "install", lambda _needs, _log: None)
    return tmp_path / "tools"


def calls(tools: Path) -> list[str]:
    lines = (tools.parent / "calls").read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("-m pytest -p no:cacheprovider ") for line in lines]


def test_every_checker_runs_after_one_has_failed(
    tools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = str(tools / "bin/python3")
    failing = ["sh", "-c", "echo the reason; echo and more >&2; exit 2"]
    table = [("one", failing), ("two", [python, "two"]), ("three", failing)]
    monkeypatch.setattr(checks, "commands", lambda _tools: table)
    assert checks.check() == 2
    out = capsys.readouterr().out
    assert out.count("the reason\nand more") == 2
    assert out.endswith("check: one, three complained\n")
    assert calls(tools) == ["two"]


def test_the_tools_come_first_on_the_path_of_a_checker(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["sh", "-c", "test $(command -v python3) = $0", str(tools / "bin/python3")]
    monkeypatch.setattr(checks, "commands", lambda _tools: [("path", command)])
    assert checks.check() == 0


def test_the_checkers_have_different_names_and_read_existing_files() -> None:
    table = checks.commands(Path("/tools"))
    assert len({name for name, _ in table}) == len(table)
    words = dict(table)["codespell"]
    texts = words[words.index("codespell_lib") + 1 :]
    assert "README.rst" in texts
    assert [name for name in texts if not (CHECKOUT / name).exists()] == []


def test_shell_scripts_are_those_of_the_sources() -> None:
    scripts = checks.shell_scripts()
    assert "sandbox_images/base/debootstrap.sh" in scripts
    for name in scripts:
        assert (CHECKOUT / name).is_file()
        assert not {"target", ".aio", ".git"} & set(Path(name).parts)


def test_each_test_belongs_to_exactly_one_session() -> None:
    markers = [session[session.index("-m") + 1] for session in checks.SESSIONS]
    assert sorted(markers) == ["alone", "not alone"]


def test_all_sessions_run_and_the_first_failure_is_the_result(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SESSIONS", (("first",), ("fails",), ("last",)))
    assert checks.test([]) == 3
    assert calls(tools) == ["first", "fails", "last"]


def test_arguments_replace_the_sessions(tools: Path) -> None:
    assert checks.test(["tests/unit", "-x"]) == 0
    assert calls(tools) == ["tests/unit -x"]
