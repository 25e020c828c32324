"""Failed tests are repeated once in a session of their own; nothing else is repeated or hidden."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from storlet_middleware.aio import sessions
from storlet_middleware.aio.progress import AioError
from tests.support.forking import Commands, pytest_commands

GOOD: Final = "def test_good():\n    pass\n"
#: Fails in the first session.
ONCE: Final = """
import pathlib
import pytest

@pytest.mark.parametrize("value", ["a b", "x[1]::/é"])
def test_once(value):
    mark = pathlib.Path(__file__).with_name(f"seen-{len(value)}")
    if not mark.exists():
        mark.touch()
        raise AssertionError("the machine is busy")
"""
TEARDOWN_ONCE: Final = """
import pathlib
import pytest

@pytest.fixture
def busy():
    yield
    mark = pathlib.Path(__file__).with_name("seen-teardown")
    if not mark.exists():
        mark.touch()
        raise AssertionError("the end is late")

def test_busy(busy):
    pass
"""
ALWAYS: Final = "def test_always():\n    assert 1 == 2, 'one is not two'\n"
CRASH: Final = "import os\n\ndef test_crash():\n    os._exit(1)\n"
SKIPPED_LATER: Final = """
import pathlib
import pytest

def test_later():
    mark = pathlib.Path(__file__).with_name("seen-later")
    if mark.exists():
        pytest.skip("not here")
    mark.touch()
    raise AssertionError
"""
SKIPPED: Final = "import pytest\n\ndef test_skipped():\n    pytest.skip('not here')\n"
BROKEN: Final = "import no_such_module\n"
WORKERS: Final = ("-n", "2", "--dist", "loadfile")
WORKER: Final = ("-n", "1", "--dist", "loadfile")
BOTH: Final = pytest.mark.parametrize("workers", [(), WORKER], ids=["one process", "worker"])


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with pytest_commands() as made:
        yield made


@pytest.fixture(autouse=True)
def _forks(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are forks: the import of pytest would take most of their time."""
    monkeypatch.setattr(sessions, "subprocess", SimpleNamespace(run=commands.completed))


def run(
    folder: Path,
    *arguments: tuple[str, ...],
    repeat: bool = True,
    settings: dict[str, str] | None = None,
    **modules: str,
) -> int:
    """Run the modules of a fake suite in the sessions ``arguments``."""
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for name, text in modules.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "xdist"]
    return sessions.run(command, arguments, settings or {}, repeat, folder)


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines about the repetition."""
    out = capsys.readouterr().out
    return [line.removeprefix("repeat: ") for line in out.splitlines()]


@BOTH
def test_a_test_that_fails_once_passes_and_is_named_in_the_last_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], workers: tuple[str, ...]
) -> None:
    assert run(tmp_path, workers, good=GOOD, once=ONCE, teardown=TEARDOWN_ONCE) == 0
    output = capfd.readouterr().out
    assert output.index("the machine is busy") < output.index("repeat: 3 tests failed and will")
    *_, first, second, third = output.splitlines()
    start = "repeat: FAILED FIRST, PASSED WHEN REPEATED (see above): "
    assert sorted([first, second, third]) == [
        f"{start}test_once.py::test_once[a b]",
        f"{start}test_once.py::test_once[x[1]::/\\xe9]",
        f"{start}test_teardown.py::test_busy",
    ]


def test_a_test_that_fails_again_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, (), always=ALWAYS, teardown=TEARDOWN_ONCE) == 1
    assert said(capsys)[1:] == [
        "FAILED AGAIN: test_always.py::test_always",
        "FAILED FIRST, PASSED WHEN REPEATED (see above): test_teardown.py::test_busy",
    ]


def test_the_failed_tests_of_all_sessions_are_repeated_together_after_the_last_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(
        tmp_path, ("-k", "busy"), ("-k", "good or once"), good=GOOD, once=ONCE, late=TEARDOWN_ONCE
    )
    assert code == 0
    first, *others = said(capsys)
    assert first == "3 tests failed and will be run once more, in a new session"
    assert len(others) == 3


@pytest.mark.parametrize(
    ("workers", "reason"),
    [((), "a session wrote no outcomes"), (WORKERS, "a worker of pytest crashed")],
    ids=["one process", "workers"],
)
def test_a_crash_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: tuple[str, ...], reason: str
) -> None:
    # xdist runs the test again in each worker that it starts in place of one: eight by default.
    limit = ("--max-worker-restart=1",) if workers else ()
    assert run(tmp_path, (*workers, *limit), crash=CRASH, once=ONCE) != 0
    (line,) = said(capsys)
    assert line.startswith("no test is repeated: ")
    assert reason in line


@BOTH
def test_a_module_that_cannot_be_collected_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: tuple[str, ...]
) -> None:
    assert run(tmp_path, workers, broken=BROKEN, good=GOOD) != 0
    (line,) = said(capsys)
    assert "test_broken.py cannot be collected" in line


def test_a_session_that_stopped_early_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, ("-x",), once=ONCE) == 1
    (line,) = said(capsys)
    assert line.startswith("no test is repeated: a session stopped early")


def test_a_forbidden_skip_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid = {"STORLETS_FORBID_SKIPS": "1"}
    assert run(tmp_path, (), settings=forbid, once=ONCE, skipped=SKIPPED) == 1
    assert said(capsys) == ["no test is repeated: a test was skipped, which is forbidden"]


def test_a_failed_test_that_is_skipped_when_it_is_repeated_has_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, (), later=SKIPPED_LATER) == 1
    assert said(capsys)[-1] == "FAILED AGAIN: test_later.py::test_later"


def test_many_failed_tests_are_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = "import pytest\n\n@pytest.mark.parametrize('n', range(11))\ndef test(n):\n    assert 0\n"
    assert run(tmp_path, (), many=many) == 1
    assert said(capsys) == ["no test is repeated: 11 tests failed, and at most 10 are repeated"]


def test_nothing_is_repeated_where_all_tests_pass_or_the_repetition_is_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, (), good=GOOD) == 0
    assert run(tmp_path, (), once=ONCE, repeat=False) == 1
    assert said(capsys) == []


def test_an_unknown_choice_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORLETS_REPEAT_FAILED", "no")
    with pytest.raises(AioError, match="STORLETS_REPEAT_FAILED=no is not a choice"):
        sessions.is_repeat_on(default=True)
