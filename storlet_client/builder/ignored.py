"""The files that an author does not keep: those that ``.gitignore`` of a project names.

Its patterns mean what they mean to Git, in the project, in each of its folders, and in the folders
above it up to that of the repository.  Git itself is not used, so that a copy of what the author
keeps gives the same bundle without the history.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = ".gitignore"
_REPOSITORY = ".git"
#: Patterns of one clone, below the folder of the repository.
_EXCLUDE = f"{_REPOSITORY}/info/exclude"
#: The parts of a pattern; what none of them matches stands for itself.
_PART = re.compile(
    r"\A\*\*/|/\*\*/|/\*\*\Z|\*+|\?|\[[!^]?\]?(?:\[:\w*:\]|\\.|[^\]\\])*\]|\\.",
    re.DOTALL,
)
#: The parts of the inner of a class, such as ``[a-c[:digit:]]``.
_OF_CLASS = re.compile(r"\[:\w*:\]|\\.|.", re.DOTALL)
_NAMED = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "digit": "0-9", "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~", "space": "\\s", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """One pattern: a path of the project that it matches is ignored, or ``is_kept`` again."""

    pattern: re.Pattern[str]
    is_kept: bool
    is_of_folders: bool


def rules_of(folder: Path, inner: str) -> list[Rule]:
    """The rules of one folder.

    :param inner: its path in the project, with a final slash; empty for the project itself.
    """
    return _rules_in(folder / FILE, inner)


def rules_above(project: Path) -> tuple[str, tuple[Rule, ...]]:
    """The path of a project in its Git repository, with a final slash, and the rules above it.

    Empty outside of a repository, and if the repository ignores the project as a whole: then none
    of its rules is about the files of the project.
    """
    project = project.resolve()
    above = (project, *project.parents)
    top = next((each for each in above if os.path.lexists(each / _REPOSITORY)), project)
    folders = [each for each in above if each.is_relative_to(top)][::-1]
    rules = _rules_in(top / _EXCLUDE, "")
    inner = ""
    for folder, below in zip(folders, folders[1:]):
        rules += rules_of(folder, inner)
        inner += below.name
        if is_ignored(inner, rules, is_folder=True):
            return "", ()
        inner += "/"
    return inner, tuple(rules)


def _rules_in(file: Path, inner: str) -> list[Rule]:
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return []
    found = (_rule(line, inner) for line in text.splitlines())
    return [rule for rule in found if rule is not None]


def is_ignored(path: str, rules: Sequence[Rule], *, is_folder: bool) -> bool:
    """Whether the last rule that matches ``path`` ignores it; no folder above it is ignored."""
    for rule in reversed(rules):
        if (is_folder or not rule.is_of_folders) and rule.pattern.fullmatch(path):
            return not rule.is_kept
    return False


def _rule(line: str, inner: str) -> Rule | None:
    line = re.sub(r"(?<!\\)[ \t]+$", "", line)
    is_kept = line.startswith("!")
    pattern = line[is_kept:]
    is_of_folders = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    if not pattern or line.startswith("#"):
        return None
    # A slash, but a final one, binds a pattern to the folder of its file.
    where = "" if "/" in pattern else "(?:.*/)?"
    try:
        expression = re.compile(re.escape(inner) + where + _expression(pattern), re.DOTALL)
    except (re.error, KeyError):  # a class such as [z-a] or [[:none:]]: Git matches nothing
        return None
    return Rule(expression, is_kept, is_of_folders)


def _expression(pattern: str) -> str:
    pattern = pattern.removeprefix("/")
    found, at = [], 0
    for part in _PART.finditer(pattern):
        found += [re.escape(pattern[at : part.start()]), _translated(part[0])]
        at = part.end()
    return "".join([*found, re.escape(pattern[at:])])


def _translated(part: str) -> str:
    if part.startswith("["):
        is_negative = part.startswith(("[!", "[^"))
        inner = "".join(map(_of_class, _OF_CLASS.findall(part[1 + is_negative : -1])))
        return f"(?!/)[{'^' if is_negative else ''}{inner}]"
    if part.startswith("\\"):
        return re.escape(part[1])
    fixed = {"**/": "(?:.*/)?", "/**/": "/(?:.*/)?", "/**": "/.+", "?": "[^/]"}
    return fixed.get(part, "[^/]*")


def _of_class(part: str) -> str:
    if part.startswith("[:") and len(part) > 1:
        return _NAMED[part[2:-2]]
    return part if part == "-" else re.escape(part[-1])
