"""Sessions of pytest as ``make test`` and CI run them, in one process and with workers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from storlet_middleware.aio import checks, sessions
from tests import conftest
from tests.coverage import selection
from tests.support.forking import Commands, pytest_commands

GOOD = "def test_good():\n    pass\n"
SKIPPED = "import pytest\n\n\ndef test_skipped():\n    pytest.skip('not here')\n"
BAD = "def test_bad():\n    assert 1 == 2, 'one is not two'\n"
#: One worker where the modules of several make no difference: a worker imports pytest.
WORKER, WORKERS = (
    pytest.mark.parametrize(
        "workers", [[], ["-n", count, "--dist", "loadfile"]], ids=["one process", "workers"]
    )
    for count in "12"
)


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with pytest_commands(CI="1", STORLETS_FORBID_SKIPS="1", COLUMNS="150") as made:
        yield made


def session(
    commands: Commands, folder: Path, arguments: list[str], **modules: str
) -> tuple[int, str]:
    """Run test modules with the hooks of ``tests/conftest.py``; exit code and output."""
    for name, text in modules.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    words = ["-p", "no:cacheprovider", "-p", "xdist", "-p", "tests.conftest", *arguments, "."]
    done = commands.ended(words, {}, str(folder))
    return done.code, done.out + done.err


@WORKERS
def test_a_session_in_which_all_tests_pass_succeeds_with_one_line_for_each_module(
    commands: Commands, tmp_path: Path, workers: list[str]
) -> None:
    code, output = session(
        commands, tmp_path, workers, one=GOOD + GOOD.replace("good", "too"), two=GOOD
    )
    assert code == 0, output
    assert "3 passed" in output.splitlines()[-1]
    lines = [line for line in output.splitlines() if " tests " in line]
    assert sorted(line.split(" tests ")[0] for line in lines) == ["test_one.py 2", "test_two.py 1"]


@WORKER
def test_a_skipped_test_fails_the_session_where_skips_are_forbidden(
    commands: Commands, tmp_path: Path, workers: list[str]
) -> None:
    code, output = session(commands, tmp_path, workers, one=GOOD, two=SKIPPED)
    assert code == 1, output
    assert "STORLETS_FORBID_SKIPS: there are skipped tests" in output
    assert "1 passed, 1 skipped" in output.splitlines()[-1]


@WORKER
def test_a_failure_is_one_line_in_the_output_also_beside_a_forbidden_skip(
    commands: Commands, tmp_path: Path, workers: list[str]
) -> None:
    code, output = session(commands, tmp_path, workers, one=GOOD, two=BAD, three=SKIPPED)
    assert code == 1, output
    assert "STORLETS_FORBID_SKIPS: there are skipped tests" in output
    assert "test_two.py::test_bad failed in call: " in output
    assert "one is not two" in output
    assert "1 failed, 1 passed, 1 skipped" in output.splitlines()[-1]


def test_the_sessions_of_make_test_run_each_test_once() -> None:
    markers = [session[session.index("-m") + 1] for session in checks.SESSIONS]
    assert markers == ["not alone", "alone"]


@pytest.mark.parametrize("is_alone", [False, True])
@pytest.mark.parametrize("is_hypothesis", [False, True])
@pytest.mark.parametrize("is_untraced", [False, True])
@pytest.mark.parametrize("is_unit", [False, True])
def test_coverage_and_make_test_after_it_run_each_test_once(
    is_alone: bool, is_untraced: bool, is_hypothesis: bool, is_unit: bool
) -> None:
    markers = {
        "alone": is_alone,
        "untraced": is_untraced,
        "hypothesis": is_hypothesis,
        "unit": is_unit,
    }
    chosen = [session[session.index("-m") + 1] for session in checks.SESSIONS_AFTER_CHECK]
    folder, *ignored, _, traced = selection.SELECTION
    assert folder == "tests/unit"
    assert ignored == [f"--ignore=tests/unit/{place}" for place in selection.UNTRACED_PLACES]
    of_make_test = [selects(one, markers) for one in chosen]
    assert [is_unit and selects(traced, markers), *of_make_test].count(True) == 1


def test_after_check_the_modules_without_a_test_that_is_left_are_not_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(selection, "UNIT", tmp_path)
    monkeypatch.setattr(selection, "UNTRACED_PLACES", ("folder", "test_five.py"))
    texts = {"test_one.py": "", "test_two.py": "@given", "support.py": ""}
    texts |= {"test_three.py": "import hypothesis", "test_four.py": "@pytest.mark.untraced"}
    texts |= {"test_five.py": "", "folder/test_six.py": "", "other/test_seven.py": ""}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    elsewhere = Path(__file__)

    def left_out() -> list[str]:
        paths = [*sorted(tmp_path.rglob("*.py")), elsewhere]
        return [path.name for path in paths if conftest.pytest_ignore_collect(path)]

    monkeypatch.delenv("STORLETS_AFTER_CHECK", raising=False)
    assert left_out() == []
    monkeypatch.setenv("STORLETS_AFTER_CHECK", "1")
    assert left_out() == ["test_seven.py", "test_one.py", "test_two.py"]


def test_the_untraced_places_exist_and_their_tests_have_the_marker() -> None:
    for place in selection.UNTRACED_PLACES:
        found = selection.UNIT / place
        module = found if found.suffix else next(found.rglob("test_*.py"))
        added: list[str] = []
        item: Any = SimpleNamespace(path=module, nodeid="x", add_marker=added.append)
        conftest.pytest_itemcollected(item)
        assert (module.exists(), added) == (True, ["untraced"])


def test_a_module_that_hides_a_test_that_is_left_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = tmp_path / "test_hides.py"
    module.write_text("from elsewhere import decorated")
    monkeypatch.setattr(selection, "UNIT", tmp_path)

    def item(**markers: object) -> Any:
        return SimpleNamespace(path=module, nodeid="x", get_closest_marker=markers.get)

    conftest.pytest_collection_modifyitems([item(unit=True)])
    with pytest.raises(pytest.UsageError, match="test_hides"):
        conftest.pytest_collection_modifyitems([item(unit=True), item(untraced=True)])


def selects(expression: str, markers: dict[str, bool]) -> bool:
    """Whether ``-m expression`` selects a test with these markers."""
    return Expression.compile(expression).evaluate(lambda name, **_: markers[name])


def test_the_tests_of_this_folder_are_marked_as_unit_tests(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("unit")


@pytest.mark.parametrize(("codes", "result"), [((0, 0), 0), ((1, 0), 1), ((0, 1), 1)])
def test_make_test_runs_all_sessions_and_fails_when_one_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, codes: tuple[int, ...], result: int
) -> None:
    monkeypatch.delenv("STORLETS_AFTER_CHECK", raising=False)
    monkeypatch.setenv("STORLETS_REPEAT_FAILED", "0")
    monkeypatch.setenv("STORLETS_CACHE", str(tmp_path / "cache"))
    commands = []

    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, codes[len(commands) - 1])

    monkeypatch.setattr(checks.packages, "install", lambda *_: None)
    monkeypatch.setattr(checks.venv, "tools", lambda _: tmp_path)
    monkeypatch.setattr(sessions.subprocess, "run", run)
    assert checks.test([]) == result
    assert [
        tuple(command[-len(one) :]) for command, one in zip(commands, checks.SESSIONS, strict=True)
    ] == list(checks.SESSIONS)
