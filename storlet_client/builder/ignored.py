"""The files that an author does not keep: those that ``.gitignore`` of a project names.

Its patterns mean what they mean to Git, in the project and in each of its folders.  Git itself is
not used, so that a copy of the project without its history gives the same bundle.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = ".gitignore"
#: The parts of a pattern; what none of them matches stands for itself.
_PART = re.compile(r"\A\*\*/|/\*\*/|/\*\*\Z|\*+|\?|\[!?\]?[^\]]*\]|\\.", re.DOTALL)


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
    try:
        text = (folder / FILE).read_text(encoding="utf-8", errors="replace")
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
    except re.error:  # a class such as [z-a]: Git matches nothing
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
        is_negative = part.startswith("[!")
        inner = part[1 + is_negative : -1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[{'^' if is_negative else ''}{inner}]"
    if part.startswith("\\"):
        return re.escape(part[1])
    fixed = {"**/": "(?:.*/)?", "/**/": "/(?:.*/)?", "/**": "/.+", "?": "[^/]"}
    return fixed.get(part, "[^/]*")
