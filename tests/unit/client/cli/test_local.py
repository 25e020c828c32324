"""``run`` and ``test``."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from storlet_client.builder import template
from storlet_client.local import sandbox
from tests.unit.client.conftest import Command

#: Instead of storlet-local: output and outcome of a storlet that works, or fails.
PROGRAM = """
import json, os, sys
with os.fdopen(int(sys.argv[2]), "wb", 0) as report:
    for line in sys.stdin.buffer:
        text = json.loads(line)["parameters"]["text"]
        if text == "log":
            trace = 'File "/var/lib/storlets/' + "a" * 64 + '/fruit.py", line 1\\nValueError: x'
            answer = {"code": "storlet.failed", "message": "ValueError: x", "traceback": trace}
            answer["log"] = "ERROR: " + trace + "\\n"
        elif text == "fail":
            answer = {"code": "storlet.failed", "message": "on purpose", "traceback": "a traceback"}
        else:
            print("one apple\\nthree apples", flush=True)
            answer = {"code": "ok", "metadata": {"a": "b"}, "log": "a log\\n", "usage": "in=1"}
        report.write(json.dumps(answer).encode() + b"\\n")
"""


@pytest.fixture(autouse=True)
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's package is installed where these tests run."""
    monkeypatch.setattr(sandbox, "command", list)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return template.make(tmp_path / "fruit")


def test_the_output_of_a_run_is_stored(command: Command, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    words = ("run", "--no-sandbox", str(folder), str(folder / "sample.txt"), "-o", str(target))
    result = command(*words, "-p", "text=apple", "-m", "colour=red")
    assert result.code == 0
    assert target.read_bytes() == b"one apple\nthree apples\n"
    assert result.err.splitlines()[0] == "fruit.Fruit DEBUG: kept 2 lines"
    assert "metadata colour: red" in result.err


def test_further_outputs_are_stored_if_the_run_succeeds(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    with (folder / "storlet.toml").open("a") as file:
        file.write("\n[outputs]\ncount = 2\n")
    source = folder / "src/fruit.py"
    source.write_text(source.read_text().replace("out_files[0]", "out_files[1]"))
    words = ("run", "--no-sandbox", str(folder), str(folder / "sample.txt"), "-p", "text=apple")
    refused = command(*words)
    assert (refused.code, "1 outputs: the storlet makes 2" in refused.err) == (3, True)
    second = tmp_path / "second"
    result = command(*words, "--further-output", str(second), "-m", "colour=red")
    assert (result.code, result.out) == (0, "")
    assert second.read_bytes() == b"one apple\nthree apples\n"
    assert "metadata of output 2: colour: red" in result.err
    source.write_text(source.read_text().replace("kept = 0", "raise ValueError"))
    second.unlink()
    assert command(*words, "--further-output", str(second)).code == 4
    assert not second.exists()


def test_the_cases_of_a_bundle_run_as_those_of_its_project(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    with (folder / "storlet.toml").open("a") as file:
        file.write('\n[[tests]]\nname = "large"\ninput = "sample.txt"\nupload = false\n')
    assert command("build", str(folder), "-o", str(tmp_path)).code == 0
    (bundle,) = tmp_path.glob("*.storlet")
    result = command("test", str(bundle), "-f", "csv")
    assert (result.code, result.out.count(",ok,")) == (0, 1)
    assert "not run: large: upload = false" in result.err
    (tmp_path / "broken.storlet").write_bytes(b"x")
    result = command("test", str(tmp_path / "broken.storlet"))
    assert (result.code, "not a zip" in result.err) == (3, True)


def test_a_failed_run_leaves_no_output(command: Command, folder: Path, tmp_path: Path) -> None:
    source = folder / "src/fruit.py"
    source.write_text(source.read_text().replace("kept = 0", "raise ValueError('on purpose')"))
    target = tmp_path / "out"
    result = command(
        "run", "--no-sandbox", str(folder), str(folder / "sample.txt"), "-o", str(target)
    )
    assert result.code == 4
    assert "storlet: storlet.failed: ValueError: on purpose" in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fruit"]


def test_a_run_with_a_wrong_parameter_is_refused(command: Command, folder: Path) -> None:
    result = command(
        "run", "--no-sandbox", str(folder), str(folder / "sample.txt"), "-p", "txt=apple"
    )
    assert result.code == 3
    assert "did you mean text?" in result.err


def test_the_cases_of_a_project_are_run(command: Command, folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    result = command("test", str(folder), "-f", "csv", "--junit", str(report))
    assert (result.code, result.out.splitlines()[1].split(",")[:2]) == (
        0,
        ["lines with apples", "ok"],
    )
    assert 'failures="0"' in report.read_text()
    (folder / "expected.txt").write_text("pears\n")
    failed = command("test", str(folder))
    assert failed.code == 1
    assert "-pears" in failed.err
    assert command("test", str(folder), "-k", "nothing").code == 3


def test_without_the_servers_package_a_run_says_what_to_install(
    command: Command, folder: Path
) -> None:
    source = folder / "storlet.toml"
    # A library that does not exist would be the error of a build.
    source.write_text(source.read_text().replace("= []", '= ["no-such-package-1"]'))
    result = command("run", str(folder), str(folder / "sample.txt"))
    assert result.code == 3
    assert "install swift-storlets" in result.err
    assert "--no-sandbox" in result.err
    assert command("test", "--sandbox", str(folder)).code == 3


def test_a_limit_without_a_sandbox_is_refused(command: Command, folder: Path) -> None:
    words = ("run", "--no-sandbox", "--limit", "Memory=64M", str(folder))
    assert "leave out --no-sandbox" in command(*words, str(folder / "sample.txt")).err


def test_a_debugger_of_java_for_another_language_is_refused(command: Command, folder: Path) -> None:
    words = ("run", "--no-sandbox", "--debug", str(folder), str(folder / "sample.txt"))
    result = command(*words, "-p", "text=apple")
    assert (result.code, result.out) == (3, "")
    assert "--debug is for Java, and this is python: use breakpoint()" in result.err


def test_a_run_and_its_cases_in_a_sandbox(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "command", lambda: [sys.executable, "-c", PROGRAM])
    sample = str(folder / "sample.txt")
    result = command("run", str(folder), sample, "-p", "text=apple", "--limit", "Memory=64M")
    assert (result.code, result.out) == (0, "one apple\nthree apples\n")
    assert result.err == "a log\nmetadata a: b\n"
    assert command("test", str(folder)).code == 0
    failed = command("run", str(folder), sample, "-p", "text=fail")
    assert (failed.code, failed.out) == (4, "")
    assert "storlet: storlet.failed: on purpose\n\na traceback" in failed.err
    failed = command("run", str(folder), sample, "-p", "text=log")
    logged = 'ERROR: File "fruit.py", line 1\nValueError: x\n'
    assert failed.err == f"{logged}storlet: storlet.failed: ValueError: x\n"


def test_a_bundle_runs_without_a_sandbox(command: Command, folder: Path) -> None:
    assert command("build", str(folder)).code == 0
    bundle = str(folder / "dist/fruit-0.1.0.storlet")
    result = command("run", "--no-sandbox", bundle, str(folder / "sample.txt"), "-p", "text=pear")
    assert (result.code, result.out) == (0, "two pears\n")


@pytest.mark.parametrize("where", [".", "src"])
def test_in_a_project_a_run_names_the_input_only(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(folder / where)
    sample = str(folder / "sample.txt")
    result = command("run", "--no-sandbox", sample, "-p", "text=pear")
    assert (result.code, result.out) == (0, "two pears\n")


def test_in_a_project_another_project_or_bundle_can_be_named(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("build", str(folder)).code == 0
    other = template.make(tmp_path / "other")
    (other / "src/other.py").unlink()
    monkeypatch.chdir(other)
    bundle = Path("../fruit/dist/fruit-0.1.0.storlet")
    bundle.with_suffix(".zip").write_bytes(bundle.read_bytes())
    for subject in ("../fruit", str(bundle), str(bundle.with_suffix(".zip"))):
        result = command("run", "--no-sandbox", subject, "sample.txt", "-p", "text=pear")
        assert (result.code, result.out) == (0, "two pears\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_arguments_of_a_run_without_project_or_input_are_refused(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("build", str(folder)).code == 0
    (tmp_path / "in").write_text("an apple\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Terminal())

    def error(*words: str) -> str:
        result = command("run", "--no-sandbox", *words)
        assert (result.code, result.out) == (2, "")
        return result.err

    bundle = str(folder / "dist/fruit-0.1.0.storlet")
    assert "'in' has no project: there is no storlet.toml here or in a folder above" in error("in")
    assert "'-' has no project: there is no storlet.toml here" in error("-")
    assert "there is no project: there is no storlet.toml here" in error()
    assert "'fruit' has no input: FILE is missing, and standard input is a" in error("fruit")
    assert f"{bundle!r} has no input: FILE is missing" in error(bundle)
    assert "FILE 'fruit' is a folder: name a file" in error("fruit", "fruit")
    assert "'-' is given twice" in error("fruit", "-", "-")
    monkeypatch.chdir(folder)
    assert "'.' has no input: FILE is missing" in error()
    assert f"ambiguous argument {bundle!r}: a bundle to run, or an input" in error(bundle)


@pytest.mark.parametrize("words", [[], ["-"], ["."], [".", "-"]])
def test_standard_input_is_an_input(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(folder)
    with (folder / "sample.txt").open() as source:
        monkeypatch.setattr(sys, "stdin", source)
        result = command("run", "--no-sandbox", *words, "-p", "text=pear", "-m", "colour=red")
    assert (result.code, result.out) == (0, "two pears\n")
    assert "metadata colour: red" in result.err


def test_a_closed_standard_input_is_named(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    result = command("run", "--no-sandbox", str(folder))
    assert (result.code, result.err) == (3, "storlet: standard input is closed: name a file\n")


def test_a_plain_file_runs_outside_of_a_project(
    command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sum.sh").write_text("#!/bin/sh\nwc -l\n")
    sample = str(folder / "sample.txt")
    (tmp_path / "plain.py").write_bytes((folder / "src/fruit.py").read_bytes())
    result = command("run", "--no-sandbox", "plain.py", sample, "-p", "text=pear", "-p", "more=x")
    assert (result.code, result.out) == (0, "two pears\n")
    assert result.err.startswith("plain.Fruit DEBUG: kept 1 lines")
    result = command("run", "--no-sandbox", "--language", "native", "sum.sh", sample)
    assert (result.code, result.out.strip()) == (0, "3")
    result = command("run", "--no-sandbox", "--language", "java", "plain.py", sample)
    assert (result.code, "add --main with the class" in result.err) == (3, True)


def test_options_that_contradict_the_manifest_are_refused(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    words = ("run", "--no-sandbox", "sample.txt", "-p", "text=pear")
    assert command(*words, "--language", "python").out == "two pears\n"
    result = command(*words, "--language", "java", "--main", "a.B", "--dependency", "lib.py")
    assert result.code == 3
    assert result.err.splitlines() == [
        "storlet: --main: the manifest of . has this: leave it out",
        "storlet: --dependency: the manifest of . has this: leave it out",
        "storlet: --language java: the manifest of . has the language python: leave it out",
    ]


def test_a_project_with_a_build_is_built_once_for_all_cases(
    command: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "fruit"
    folder.mkdir()
    text = 'name = "fruit"\nversion = "1"\nlanguage = "native"\nmain = "fruit.sh"\n'
    text += 'build = ["sh", "-c", "echo built >> ../builds"]\nfiles = ["fruit.sh"]\n'
    for name in ("one", "two"):
        text += f'[[tests]]\nname = "{name}"\ninput = "sample"\noutput = "sample"\n'
    (folder / "storlet.toml").write_text(text)
    (folder / "sample").write_text("data\n")
    (folder / "fruit.sh").write_text("#!/bin/sh\ncat\n")
    (folder / "fruit.sh").chmod(0o755)
    result = command("test", "--no-sandbox", str(folder))
    assert (result.code, result.out.count(" ok ")) == (0, 2), result
    assert (tmp_path / "builds").read_text() == "built\n"
    (folder / "storlet.toml").write_text(text.replace("echo built", "echo broken; false"))
    result = command("test", "--no-sandbox", str(folder))
    assert (result.code, result.err.count("exit status 1")) == (3, 1), result
