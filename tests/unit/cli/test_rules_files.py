"""Files of rules on the command line, and findings about them."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from rules.model import Finding, Place, Severity
from rules.text import MAX_BYTES
from storlet_middleware.cli import rules_files
from storlet_middleware.cli.command import CliError

FINDING = Finding(Severity.ERROR, "a.code", Place(3, 5), "the \x1b fault", "mend it", "method=GET")


def test_a_file_is_read_up_to_one_byte_more_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 9))
    assert len(rules_files.read(str(path)).raw) == MAX_BYTES + 1


def test_standard_input_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"version: 1")))
    assert rules_files.read("-") == rules_files.RulesFile("<stdin>", b"version: 1")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"none\.yaml cannot be read: No such file.*\n    help: "):
        rules_files.read(str(tmp_path / "none.yaml"))
    with pytest.raises(CliError, match="the name of a file is empty\n    help: correct the path"):
        rules_files.read("")


def test_a_closed_standard_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CliError, match="standard input is closed\n    help: name a file"):
        rules_files.read("-")


def test_a_finding_is_shown_with_its_position_and_without_control_characters() -> None:
    shown = rules_files.show(rules_files.RulesFile("r.yaml", b""), FINDING)
    assert shown.splitlines()[0].startswith("r.yaml:3:5: error [a.code]: the ")
    assert "\x1b" not in shown
    assert shown.splitlines()[1:] == ["    help: mend it", "    example: method=GET"]
    data = rules_files.finding_data(rules_files.RulesFile("r.yaml", b""), FINDING)
    assert (data["line"], data["example"]) == (3, "method=GET")


@pytest.mark.parametrize(("number", "text"), [(0, "0 rules"), (1, "1 rule"), (2, "2 rules")])
def test_counts_have_the_right_number(number: int, text: str) -> None:
    assert rules_files.count(number, "rule") == text
