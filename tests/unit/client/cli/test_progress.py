"""Progress on a terminal, and files that appear only when they are complete."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest

from storlet_client.builder import template
from storlet_client.cli.main import main
from storlet_client.cli.progress import FileBody, chunks_of, size_of, watched, working, written
from tests.unit.client.cli.conftest import MAIN, Terminal
from tests.unit.client.server import Reply, Server


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def test_a_file_replaces_the_old_one_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_bytes(b"old")
    with written(str(place)) as file:
        file.write(b"new")
        assert place.read_bytes() == b"old"
    assert place.read_bytes() == b"new"
    assert names(tmp_path) == ["out"]


def test_a_failure_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_bytes(b"old")

    def fail() -> None:
        with written(str(place)) as file:
            file.write(b"half")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert (place.read_bytes(), names(tmp_path)) == (b"old", ["out"])


def test_a_name_with_a_slash_at_its_end_is_that_of_a_folder(tmp_path: Path) -> None:
    name = f"{tmp_path}/none/"
    with pytest.raises(IsADirectoryError) as caught, written(name):
        raise AssertionError("it is opened")
    assert caught.value.filename == name
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_written_in_place() -> None:
    with written("/dev/null") as file:
        file.write(b"x")
    assert Path("/dev/null").is_char_device()


def test_the_size_of_a_file_is_known_and_that_of_a_pipe_is_not(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"abc")
    with (tmp_path / "in").open("rb") as file:
        assert size_of(file) == 3
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert size_of(pipe) is None


# --- on a terminal --------------------------------------------------------------------------------


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7][;m]")


@pytest.mark.parametrize(("total", "shown"), [(6, "6/6 bytes"), (None, "6 bytes")])
def test_a_terminal_shows_the_size_if_it_is_known(
    total: int | None, shown: str, on_terminal: Terminal
) -> None:
    code = (
        "from storlet_client.cli.progress import watched\n"
        f"list(watched([b'abc', b'def'], 'up [red]\\nx', {total}))"
    )
    found = on_terminal(code)
    assert found.code == 0
    assert shown in found.err
    assert "up [red]\\nx" in found.err
    assert "/?" not in found.err
    assert not COLOUR.search(found.err)
    assert COLOUR.search(on_terminal(code, NO_COLOR="").err)


def test_a_long_name_leaves_room_for_the_figures(on_terminal: Terminal) -> None:
    code = (
        "from storlet_client.cli.progress import watched\n"
        "list(watched([bytes(900_000_000)] * 2, 'upload c/' + 'x' * 100 + 'end', 2_700_000_000))"
    )
    for columns in ("80", "60"):
        err = on_terminal(code, COLUMNS=columns).err
        (frame, *_) = re.findall(r"[^\r\n]*bytes[^\r\n]*|[^\r\n]*GB[^\r\n]*", err)
        assert re.search(r"upload c/x*…x*end .*/2\.7 GB .*-:--:--", frame), err


def test_without_a_terminal_nothing_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(watched(chunks_of(io.BytesIO(b"abc"), 2), "up", 3)) == [b"ab", b"c"]
    with working("something"):
        pass
    assert capfd.readouterr() == ("", "")


def test_tasks_in_others_have_a_line_each_and_the_bytes_of_a_file_are_counted(
    tmp_path: Path, on_terminal: Terminal
) -> None:
    code = (
        "import time\n"
        "from storlet_client.cli.progress import growth, watched, working\n"
        f"with open({str(tmp_path / 'out')!r}, 'wb', 0) as file:\n"
        "    file.write(b'before')\n"
        "    with working('outer', '', growth(file)):\n"
        "        file.write(b'x' * 4321)\n"
        "        list(watched([b'abc'], 'inner', None))\n"
        "        time.sleep(0.3)\n"
        "print('end', file=sys.stderr)"
    )
    err = on_terminal(code).err
    assert "4.3 kB" in err
    assert "inner" in err
    assert err.rstrip().endswith("end")


def test_a_display_that_an_error_leaves_is_ended_before_the_error(on_terminal: Terminal) -> None:
    code = (
        "from storlet_client.cli.progress import ended, watched\n"
        "chunks = watched([b'abc'] * 3, 'up', 9)\n"
        "try:\n"
        "    with ended():\n"
        "        for chunk in chunks:\n"
        "            raise ValueError\n"
        "except ValueError:\n"
        "    print('the error', file=sys.stderr)\n"
    )
    err = on_terminal(code).err
    assert err.rindex("\x1b[?25h") < err.index("the error")  # the cursor is visible again


def test_an_upload_and_the_wait_for_its_answer_are_shown(
    server: Server, login: dict[str, str], tmp_path: Path, on_terminal: Terminal
) -> None:
    file = tmp_path / "in"
    file.write_bytes(bytes(1_000_000))
    server.on("PUT", "/c", Reply(202))
    server.on("PUT", "/c/o", Reply(503, {"Retry-After": "0"}), Reply(201))
    found = on_terminal(MAIN, "upload", str(file), "c/o", **login)
    assert (found.code, found.out) == (0, b"stored c/o\n")
    for text in (
        "upload c/o",
        "1.0/1.0 MB",
        "upload c/o: waiting for the answer",
        "503: repeat in",
    ):
        assert text in found.err
    assert len(server.received[-1].body) == 1_000_000
    found = on_terminal(MAIN, "-v", "upload", str(file), "c/o", **login)
    assert (found.code, "> PUT" in found.err, "upload c/o" in found.err) == (0, True, False)


#: A server that takes connections and never answers.
SILENT = (
    "import os, socket\n"
    "from storlet_client import transport\n"
    "from storlet_client.cli import progress\n"
    "from storlet_client.cli.main import main\n"
    "transport._QUICK_SECONDS, progress._SLOW_SECONDS = 0.6, 0.2\n"
    "server = socket.create_server(('127.0.0.1', 0))\n"
    "os.environ['OS_STORAGE_URL'] = 'http://127.0.0.1:%d/v1/A' % server.getsockname()[1]\n"
    "os.environ['OS_AUTH_TOKEN'] = 't'\n"
    "code = main(sys.argv[1:])\n"
    "print('end', file=sys.stderr)\n"
    "sys.exit(code)\n"
)


@pytest.mark.parametrize("words", [["grants", "c"], ["list"], ["-v", "grants", "c"]])
def test_a_server_that_stays_silent_is_named(words: list[str], on_terminal: Terminal) -> None:
    found = on_terminal(SILENT, *words)
    said = re.findall(r"storlet: waiting for 127\.0\.0\.1:\d+: no answer yet", found.err)
    assert (found.code, len(said)) == (5, 0 if "-v" in words else 1), found.err
    assert "no answer to GET" in found.err or "no answer to HEAD" in found.err
    assert found.err.rindex("no answer to") < found.err.index("end\r\n")


def test_a_build_and_a_download_are_shown(
    server: Server, login: dict[str, str], tmp_path: Path, on_terminal: Terminal
) -> None:
    folder = template.make(tmp_path / "fruit")
    found = on_terminal(MAIN, "build", str(folder))
    assert f"build {folder}" in found.err
    assert found.out.endswith(b"fruit-0.1.0.storlet\n")
    server.on("GET", "/storlet/fruit", Reply(404))
    server.on("GET", "/storlet/fruit.storlet", Reply(200, {}, b"x" * 2_000_000))
    found = on_terminal(MAIN, "download", "fruit", **login)
    assert found.out == b"x" * 2_000_000
    assert "2.0/2.0 MB" in found.err


#: A storlet that writes 3 MB, slowly enough for several refreshes.
SLOW = """
import sys, time


class Fruit:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        sys.stderr.write("from the storlet")
        for _ in range(3):
            out_files[0].write(bytes(1_000_000))
            time.sleep(0.2)
"""
BINARY = "#!/bin/sh\nfor i in 1 2 3; do head -c 1000000 /dev/zero; sleep 0.2; done\n"


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    folder = template.make(tmp_path / "fruit")
    (folder / "src/fruit.py").write_text(SLOW)
    return folder


@pytest.mark.parametrize("is_binary", [False, True], ids=["python", "native"])
def test_a_run_without_a_sandbox_shows_bytes_rate_and_time(
    slow: Path, on_terminal: Terminal, *, is_binary: bool
) -> None:
    sample, output = str(slow / "sample.txt"), slow / "out"
    words = ["run", "--no-sandbox", "-o", str(output)]
    if is_binary:
        program = slow.parent / "fruit.sh"
        program.write_text(BINARY)
        words += ["--language", "native", str(program), sample]
    else:
        words += [str(slow), sample]
    found = on_terminal(f"import os; os.chdir({str(slow.parent)!r})\n{MAIN}", *words)
    assert (found.code, output.stat().st_size) == (0, 3_000_000), found
    assert re.search(r"run fruit\S* .*3\.0 MB .*MB/s 0:00:00", found.err)
    assert "without a sandbox" in found.err.splitlines()[-1]
    assert is_binary or "from the storlet" in found.err


def test_a_run_without_a_sandbox_and_a_terminal_shows_nothing(
    slow: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "--no-sandbox", str(slow), str(slow / "sample.txt"), "-o", str(slow / "out")]
    assert main(words) == 0
    assert capfd.readouterr() == ("", "from the storlet")


@pytest.mark.parametrize("prompt", ["breakpoint()", "pdb.Pdb()", "input()"])
def test_a_debugger_has_the_terminal_for_itself(
    slow: Path, prompt: str, on_terminal: Terminal
) -> None:
    source = slow / "src/fruit.py"
    text = (
        f"try:\n            {prompt}\n        except EOFError:\n            pass\n"
        "        print('after the prompt', file=sys.stderr)\n        for _"
    )
    source.write_text(source.read_text().replace("for _", text).replace("sys,", "pdb, sys,"))
    words = ("run", "--no-sandbox", str(slow), str(slow / "sample.txt"), "-o", str(slow / "out"))
    found = on_terminal(f"sys.stdin = open('/dev/null')\n{MAIN}", *words, PYTHONBREAKPOINT="print")
    assert found.code == 0, found
    shown = found.err.rindex("run fruit")
    assert shown < found.err.rindex("\x1b[?25h") < found.err.index("after the prompt")


def test_cases_without_a_sandbox_show_the_time(slow: Path, on_terminal: Terminal) -> None:
    found = on_terminal(MAIN, "test", "--no-sandbox", str(slow))
    assert found.code == 1
    assert "test fruit" in found.err
    assert "from the storlet" in found.err


def test_the_lines_of_a_difference_have_colours(tmp_path: Path, on_terminal: Terminal) -> None:
    folder = template.make(tmp_path / "fruit")
    (folder / "expected.txt").write_text("one apple\npears\n")
    words = ("test", "--no-sandbox", str(folder))
    found = on_terminal(MAIN, *words, NO_COLOR="")
    assert "\x1b[31m  -pears\x1b[0m" in found.err
    assert "\x1b[32m  +three apples\x1b[0m" in found.err
    assert "\x1b[31m" not in on_terminal(MAIN, *words).err


def test_the_body_of_a_file_is_the_bytes_that_were_read_and_the_others(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"abcdef")
    with (tmp_path / "in").open("rb") as file:
        body = FileBody(file.read(2), file)
        assert (body.size, list(body)) == (6, [b"ab", b"cdef"])
