"""Parts that the verbs of ``storlet rules`` share: files of rules, findings, JSON on the output."""

from __future__ import annotations

import argparse
import errno
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rules.model import Finding
from rules.text import MAX_BYTES
from storlet_middleware.cli import text
from storlet_middleware.cli.command import NOT_WELL, CliError, say


@dataclass(frozen=True)
class RulesFile:
    """A file, with its name for findings."""

    name: str
    raw: bytes


_HELP: Final = {
    errno.ENOENT: "correct the path",
    errno.ENOTDIR: "correct the path: a part of it is a file",
    errno.EISDIR: "name a file in it",
    errno.EACCES: "become its owner, or change its permissions with chmod",
}
_OTHER_HELP: Final = "correct the path, or write the text to another file"


def read(name: str) -> RulesFile:
    """Read at most one byte more than the limit, which is enough to report it."""
    if not name:  # such as "$FILE" in a script; `Path` would read the working directory
        raise CliError("the name of a file is empty\n    help: correct the path")
    try:
        if name == "-":
            return RulesFile("<stdin>", _from_stdin())
        with Path(name).open("rb") as file:
            return RulesFile(name, file.read(MAX_BYTES + 1))
    except OSError as error:
        help_ = _HELP.get(error.errno or 0, _OTHER_HELP)
        reason = f"{text.legible(name)} cannot be read: {error.strerror or error}"
        raise CliError(f"{reason}\n    help: {help_}") from None


def _from_stdin() -> bytes:
    # A shell can close it: `<&-`.
    if sys.stdin is None:
        raise CliError("standard input is closed\n    help: name a file instead of '-'")
    return sys.stdin.buffer.read(MAX_BYTES + 1)


def show(source: RulesFile, finding: Finding) -> str:
    place = f"{text.legible(source.name)}:{finding.place.line}:{finding.place.column}"
    lines = [f"{place}: {finding.severity.value} [{finding.code}]: {text.legible(finding.text)}"]
    details = (("help", finding.help), ("example", finding.example))
    lines += [f"    {label}: {text.legible(detail)}" for label, detail in details if detail]
    return "\n".join(lines)


def finding_data(source: RulesFile, finding: Finding) -> dict[str, Any]:
    return {
        "file": source.name,
        "line": finding.place.line,
        "column": finding.place.column,
        "severity": finding.severity.value,
        "code": finding.code,
        "text": finding.text,
        "help": finding.help,
        "example": finding.example or None,
    }


def refuse(options: argparse.Namespace, source: RulesFile, findings: Sequence[Finding]) -> int:
    """Print the findings that prevent a result."""
    if options.json:
        print_json({"findings": [finding_data(source, finding) for finding in findings]})
    else:
        for finding in findings:
            say(show(source, finding))
    return NOT_WELL


def print_json(data: dict[str, Any]) -> None:
    say(json.dumps(data, indent=2))


def count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
