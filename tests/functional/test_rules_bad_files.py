"""Bad files on the command line of ``storlet rules``: one clear error, and no traceback.

These commands work without a cluster.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rules.text import MAX_BYTES
from tests.support.cluster import CHECKOUT
from tests.support.forking import Commands, Ended, commands_of

RULES = "version: 1\nrules:\n- {name: shut, when: {object: a}, deny: closed}\n"
CASES = "- {name: a, request: {method: GET, container: c, object: a}, expect: {rule: shut}}\n"
SYNTAX = "check for a missing quote, bracket or colon here or in the line above"
VARIABLES = {"PYTHONPATH": str(CHECKOUT)}

#: Each verb with the file that is bad, ``BAD``, as each of its arguments.
OF_RULES = (
    "check BAD",
    "test BAD cases.yaml",
    "explain BAD --request method=GET container=c",
    "who-can BAD GET /c/a",
    "diff BAD rules.yaml",
    "diff rules.yaml BAD",
)
OF_CASES = ("test rules.yaml BAD",)
#: One that reads rules, and one that reads cases: for faults of a process and not of a text, which
#: need a process of their own.
OF_PROCESSES = (OF_RULES[0], *OF_CASES)

#: Name and content of a file with a fault, where it is, and what is wrong and how to correct it:
#: first of rules, then of cases.
FAULTY = {
    "empty": (b"", "1:1", ("the text is empty", "write version: 1 and rules: []")),
    "half.yaml": (RULES[:40].encode(), "3:23", ("invalid YAML", SYNTAX)),
    "half.json": (b'{"version": 1, "rul', "1:20", ("invalid YAML", SYNTAX)),
    "latin": ("# \u00e9t\u00e9".encode("latin-1"), "1:3", ("not UTF-8", "save the file as UTF-8")),
    "utf-16": (RULES.encode("utf-16"), "1:1", ("not UTF-8", "save the file as UTF-8")),
    "binary": (b"#!\n\0\1\2", "2:1", ("U+0000 is not allowed", "remove it")),
    "huge": (b"#" * (MAX_BYTES + 1), "1:1", ("the rules are longer than 1,048,576", "use globs")),
    "deep": (b"[" * 1000, "1:22", ("nested deeper than 20", "split the rule")),
    "wrong type": (b"hello", "1:1", ("must be a mapping, not a string", "write version: 1")),
}
OF_CASES_ONLY = {
    "empty": ("must be a non-empty list", "write - {name: .., request: "),
    "huge": ("the cases are longer than 1,048,576", "split them into several files"),
    "deep": ("nested deeper than 20", "storlet rules test --help"),
    "wrong type": ("must be a non-empty list, not a string", "write - {name: .., request: "),
}
#: All commands read a file of rules in the same way.  So one of them has all faults, and each other
#: one a third; the only command that reads cases has all faults of these.
FAULTS = [
    (command, name)
    for row, command in enumerate([*OF_CASES, *OF_RULES])
    for column, name in enumerate(FAULTY)
    if row < len(OF_CASES) + 1 or (row + column) % 3 == 0
]


class Folder:
    """A working directory with good rules and good cases."""

    def __init__(self, path: Path, commands: Commands) -> None:
        self.path = path
        self._commands = commands
        (path / "rules.yaml").write_text(RULES)
        (path / "cases.yaml").write_text(CASES)

    def rules(self, command: str, bad: str, *before: str) -> Ended:
        """``storlet rules`` in a process of its own; ``before`` is a program that executes it."""
        words = ["rules", *(bad if word == "BAD" else word for word in command.split())]
        if before:
            ended = self._executed([*before, sys.executable, "-m", "storlet_client", *words])
        else:
            ended = self._commands.ended(words, {}, str(self.path))
        assert "Traceback" not in ended.err
        return ended

    def _executed(self, words: list[str]) -> Ended:
        done = subprocess.run(
            words, cwd=self.path, env={**os.environ, **VARIABLES},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    with commands_of(Path(sys.prefix), "storlet", "storlet_client.cli.main", VARIABLES) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path, commands: Commands) -> Folder:
    return Folder(tmp_path, commands)


@pytest.mark.parametrize(("command", "name"), FAULTS)
def test_a_fault_has_its_place_and_a_correction(folder: Folder, command: str, name: str) -> None:
    content, place, texts = FAULTY[name]
    if command in OF_CASES:
        texts = OF_CASES_ONLY.get(name, texts)
    (folder.path / name).write_bytes(content)
    answer = folder.rules(command, name)
    assert (answer.code, answer.err) == (1, "")
    first, second, *more = answer.out.splitlines()
    assert first.startswith(f"{name}:{place}: error [")
    assert texts[0] in first
    assert second.startswith("    help: ")
    assert texts[1] in second
    assert more == ([f"{name}: 1 error, 0 warnings"] if command.startswith("check") else [])


@pytest.mark.parametrize("command", [*OF_RULES, *OF_CASES])
def test_a_file_that_cannot_be_read_is_named_with_the_reason(folder: Folder, command: str) -> None:
    (folder.path / "folder").mkdir()
    (folder.path / "loop").symlink_to("loop")
    (folder.path / "closed").write_text(RULES)
    (folder.path / "closed").chmod(0)
    for name, reason, help_ in (
        ("missing", "No such file or directory", "correct the path"),
        ("rules.yaml/missing", "Not a directory", "correct the path: a part of it is a file"),
        ("folder", "Is a directory", "name a file in it"),
        ("loop", "Too many levels of symbolic links", "correct the path, or write the text to"),
        ("closed", "Permission denied", "become its owner, or change its permissions with chmod"),
    ):
        if name == "closed" and command not in OF_PROCESSES:
            continue
        answer = folder.rules(command, name, *(_without_capabilities() * (name == "closed")))
        assert (answer.code, answer.out) == (3, "")
        told, advice = answer.err.splitlines()
        assert told == f"storlet: {name} cannot be read: {reason}"
        assert advice.startswith(f"    help: {help_}")


def _without_capabilities() -> list[str]:
    """Root reads any file unless it gives up its capabilities."""
    if os.geteuid():
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv, "root needs setpriv of util-linux for this test"
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all"]


@pytest.mark.parametrize("command", [*OF_RULES, *OF_CASES])
def test_an_empty_name_and_closed_standard_files_are_named(folder: Folder, command: str) -> None:
    for closed, bad, told in (
        ("", "", "the name of a file is empty\n    help: correct the path"),
        ("<&-", "-", "standard input is closed\n    help: name a file instead of '-'"),
        (">&-", "empty", "standard output is closed\n    help: send it to a file or a pipe"),
    ):
        if closed and command not in OF_PROCESSES:
            continue
        (folder.path / "empty").touch()
        shell = ["sh", "-c", f'exec "$@" {closed}', "sh"] if closed else []
        answer = folder.rules(command, bad, *shell)
        assert (answer.code, answer.out) == (3, "")
        assert answer.err == f"storlet: {told}\n"
