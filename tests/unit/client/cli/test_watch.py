"""A command that is repeated at each save."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storlet_client.cli import watch
from storlet_client.errors import ConfigurationError


@pytest.fixture
def at_each_pause(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Do one of the actions in each pause; the user interrupts the next one."""

    def use(*actions: Callable[[], object]) -> None:
        left = iter(actions)

        def sleep(_seconds: float) -> None:
            action = next(left, None)
            if action is None:
                raise KeyboardInterrupt
            action()

        monkeypatch.setattr(watch.time, "sleep", sleep)

    return use


def test_command_runs_once_and_after_each_change(
    tmp_path: Path, at_each_pause: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    file, runs = tmp_path / "a.py", list[str]()
    file.write_text("one")
    at_each_pause(
        lambda: None,
        lambda: file.write_text("second"),
        lambda: None,
        file.unlink,
        lambda: file.write_text("number three"),
    )
    watch.at_each_save(lambda: runs.append(file.read_text()), lambda: [file])
    assert runs == ["one", "second", "number three"]
    assert "no longer watching" in capsys.readouterr().err


def test_fault_is_shown_and_watching_continues(
    tmp_path: Path, at_each_pause: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    file, runs = tmp_path / "a.py", list[str]()
    file.write_text("bad")

    def command() -> None:
        if file.read_text() == "bad":
            raise ConfigurationError(["no class", "no language"])
        if file.read_text() == "unreadable":
            raise PermissionError(13, "Permission denied", str(file))
        runs.append("good")

    at_each_pause(lambda: file.write_text("unreadable"), lambda: file.write_text("better"))
    watch.at_each_save(command, lambda: [file])
    assert runs == ["good"]
    shown = capsys.readouterr().err
    assert "storlet: no class\nstorlet: no language\n" in shown
    assert f"storlet: {file}: Permission denied\n" in shown


def test_any_of_several_files_counts(tmp_path: Path, at_each_pause: Callable[..., None]) -> None:
    files, runs = (tmp_path / "a.py", tmp_path / "lib.py"), list[int]()
    for file in files:
        file.write_text("x")
    at_each_pause(lambda: files[1].write_text("longer"))
    watch.at_each_save(lambda: runs.append(1), lambda: files)
    assert len(runs) == 2


def test_new_and_deleted_files_count(
    tmp_path: Path, at_each_pause: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    runs = list[list[str]]()
    (tmp_path / "a").write_text("x")

    def command() -> None:
        runs.append(sorted(path.name for path in tmp_path.iterdir()))

    at_each_pause(
        lambda: (tmp_path / "b").write_text("x"),
        (tmp_path / "a").unlink,
        lambda: None,
    )
    watch.at_each_save(command, tmp_path.iterdir)
    assert runs == [["a"], ["a", "b"], ["b"]]
    assert "watching 1 file: " in capsys.readouterr().err
