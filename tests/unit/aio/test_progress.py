"""Output of the commands: steps, errors with the end of a log, and readers that disconnect."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from storlet_middleware.aio import progress
from storlet_middleware.aio.progress import AioError, Progress


def test_steps_are_numbered_and_a_failed_one_is_marked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = Progress(12)
    with steps.step("one"):
        pass
    with pytest.raises(KeyError), steps.step("two"):
        raise KeyError
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\[ 1/12\] one \.\.\. \d+\.\d s", lines[0])
    assert lines[1] == "[ 2/12] two ... failed"


def test_errors_do_not_mix_with_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    progress.say("output")
    progress.complain("warning")
    assert capsys.readouterr() == ("output\n", "warning\n")


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        (b"", 3, ""),
        (b"one\ntwo\n", 3, "one\ntwo"),
        (b"one\ntwo\nthree\n", 2, "two\nthree"),
        (b"\xff\n", 2, "\N{REPLACEMENT CHARACTER}"),
        (b"x" * 100_000 + b"\nend\n", 1, "end"),
    ],
)
def test_the_tail_of_a_log(tmp_path: Path, content: bytes, lines: int, expected: str) -> None:
    (tmp_path / "log").write_bytes(content)
    assert progress.tail(tmp_path / "log", lines) == expected


def test_the_tail_of_a_missing_log_is_the_reason(tmp_path: Path) -> None:
    assert "No such file" in progress.tail(tmp_path / "none")


def test_a_command_appends_itself_and_all_its_output_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "setup.log"
    for word in ("first", "second"):
        progress.run(["sh", "-c", f"echo {word}; echo $WHERE >&2"], log, {"WHERE": "here"})
    text = log.read_text()
    assert [line for line in text.splitlines() if line] == [
        "$ sh -c echo first; echo $WHERE >&2", "first", "here",
        "$ sh -c echo second; echo $WHERE >&2", "second", "here",
    ]  # fmt: skip


def test_a_failed_command_shows_its_status_and_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(AioError) as caught:
        progress.run(["sh", "-c", "seq 100; echo the reason; exit 7"], log)
    text = str(caught.value)
    assert text.startswith(
        f"`sh -c seq 100; echo the reason; exit 7` ended with 7. The end of {log}"
    )
    assert text.endswith("100\nthe reason")
    assert len(text.splitlines()) == progress.TAIL_LINES + 1


def test_a_missing_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(AioError, match="/nowhere/tool: No such file"):
        progress.run([Path("/nowhere/tool")], tmp_path / "log")


ROOT = Path(__file__).resolve().parents[3]


def test_a_closed_output_pipe_does_not_end_a_command() -> None:
    code = "import time; from storlet_middleware.aio.progress import complain, say; say('1'); time.sleep(.5); say('2'); say('3'); complain('done')"
    command = f"{sys.executable} -c {shlex.quote(code)} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == ("1\n0\n", "done\n")
