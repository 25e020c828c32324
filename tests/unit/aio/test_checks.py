"""``make check`` and ``make test``: every checker runs, and a failure is never lost."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import pytest

from storlet_middleware.aio import checks
from storlet_middleware.aio.home import CHECKOUT

PYTEST: Final = re.compile(r"^-m pytest -p no:cacheprovider -p \S+ --outcomes \S+ ")


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
    return [PYTEST.sub("", line) for line in lines]


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


def test_two_checkers_run_at_the_same_time_and_coverage_after_them(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tools.parent

    def meet(own: str, other: str) -> list[str]:
        wait = f"for _ in $(seq 500); do [ -e {other} ] && exit 0; sleep 0.02; done; exit 1"
        return ["sh", "-c", f"cd {place}; touch {own}; {wait}"]

    later = ["sh", "-c", f"cd {place}; [ $(ls one two three | wc -l) = 3 ]"]
    table = [("one", meet("one", "two")), ("two", meet("two", "one"))]
    table += [("three", ["touch", str(place / "three")]), (checks.COVERAGE, later)]
    monkeypatch.setattr(checks, "commands", lambda _tools: table)
    assert checks.check() == 0


def test_the_tools_come_first_on_the_path_of_a_checker(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["sh", "-c", "test $(command -v python3) = $0", str(tools / "bin/python3")]
    monkeypatch.setattr(checks, "commands", lambda _tools: [("path", command)])
    assert checks.check() == 0


def test_byte_code_is_kept_in_the_cache_and_not_beside_the_sources(
    tools: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (tools / "bin/python3").exists()
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tools.parent / "module.py").touch()
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.append('{tools.parent}'); import module",
    ]
    monkeypatch.setattr(checks, "commands", lambda _tools: [("import", command)])
    assert checks.check() == 0
    (found,) = tools.parent.rglob("module.*.pyc")
    assert found.is_relative_to(cache_dir)


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
    # The session of those that run alone collects the probes only.
    marked = [
        path.relative_to(CHECKOUT)
        for path in (CHECKOUT / "tests").rglob("*.py")
        if re.search(
            r"^(@|pytestmark = )pytest\.mark\.alone", path.read_text("utf-8"), re.MULTILINE
        )
    ]
    assert marked
    assert {"/".join(path.parts[:2]) for path in marked} == {checks.ALONE[0]}


def test_all_sessions_run_and_the_first_failure_is_the_result(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "SESSIONS", (("first",), ("fails",), ("last",)))
    assert checks.test([]) == 3
    assert calls(tools) == ["first", "fails", "last"]


def test_arguments_replace_the_sessions(tools: Path) -> None:
    assert checks.test(["tests/unit", "-x"]) == 0
    assert calls(tools) == ["tests/unit -x"]


@pytest.mark.parametrize(
    ("arguments", "is_in_workers"),
    [
        (["tests/unit"], True),
        (["tests/library", "tests/unit/rules/"], True),
        (["tests/unit", "tests/functional"], False),
        (["tests/unit/test_docs.py"], False),
    ],
)
def test_folders_of_tests_without_a_cluster_are_run_in_workers(
    tools: Path, arguments: list[str], *, is_in_workers: bool
) -> None:
    assert checks.test(arguments) == 0
    before = " ".join((*checks.WORKERS, "")) if is_in_workers else ""
    assert calls(tools) == [before + " ".join(arguments)]


def test_failed_tests_are_repeated_where_all_tests_run_and_where_the_environment_says_so(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tools.name == "tools"
    repeats = []
    monkeypatch.delenv("STORLETS_REPEAT_FAILED", raising=False)
    monkeypatch.setattr(checks.sessions, "run", lambda *_, repeat: repeats.append(repeat))
    for choice in ("", "0", "1"):
        monkeypatch.setenv("STORLETS_REPEAT_FAILED", choice)
        for arguments in ([], ["tests/unit"]):
            checks.test(arguments)
    assert repeats == [True, False, False, False, True, True]


def test_the_output_of_a_checker_that_repeated_a_test_is_shown(
    tools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tools.name == "tools"
    quiet = ["sh", "-c", "echo nothing to see"]
    loud = ["sh", "-c", f"echo E assert; echo '{checks.sessions.MARK} PASSED'; echo 93 %"]
    monkeypatch.setattr(checks, "commands", lambda _tools: [("quiet", quiet), ("loud", loud)])
    assert checks.check() == 0
    output = capsys.readouterr().out
    assert "E assert\nrepeat: PASSED\n93 %\ncheck: all fine" in output
    assert "nothing to see" not in output
