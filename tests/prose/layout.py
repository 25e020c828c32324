"""Splits text into passages: paragraphs, list items, titles, table cells.

Of reStructuredText, code blocks and markup are left out, and each inline literal counts as one
word. Docstrings and comments are read by the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

#: Stands for an inline literal or a role: one word that no pattern matches.
LITERAL: Final = "§"
_INLINE: Final = re.compile(
    r"``.+?``"  # a literal
    r"|:[a-z:]+:`[^`]*`"  # a role
    r"|<[^ <>]+>|\bhttps?://\S+"  # the target of a link
    r"|`[^`<]*`(?=[^`_]|$)"  # a literal of Markdown
)
_BULLET: Final = re.compile(
    r"^((?:\s*(?:[-*•]|\d+\.|#\.|\(\w\)|@\w+|:\w+ \w+:)\s+)+"  # list items, fields, tags of Javadoc
    r"|\s*(?:``[^`]+``,? )+ +)"  # a row of a map of modules
)
_DIRECTIVE: Final = re.compile(r"^\s*\.\. ([a-z-]+)::")
_BORDER: Final = re.compile(r"^\s*=+( +=+)+\s*$")
_UNDERLINE: Final = re.compile(r"^\s*([=~^\"#*+-])\1{2,}\s*$")
#: Directives whose content is prose.
_PROSE_DIRECTIVES: Final = frozenset(
    {"note", "warning", "tip", "important", "list-table", "glossary", "figure", "seealso"}
)


@dataclass
class Passage:
    """Prose that belongs together: its lines, each with its number in the file."""

    lines: list[tuple[int, str]] = field(default_factory=list)

    def add(self, number: int, text: str) -> None:
        self.lines.append((number, text))

    def text(self) -> str:
        """The passage in one line, its inline literals replaced."""
        joined = " ".join(text.strip() for _, text in self.lines)
        return _INLINE.sub(LITERAL, joined)

    def line_of(self, fragment: str) -> int:
        """Number of the line that holds ``fragment`` or its beginning."""
        for words in (fragment, fragment.split(" ", maxsplit=1)[0]):
            for number, text in self.lines:
                if words in _INLINE.sub(LITERAL, text):
                    return number
        return self.lines[0][0]


def passages(lines: list[tuple[int, str]]) -> Iterator[Passage]:
    """Passages of reStructuredText, given as numbered lines."""
    passage = Passage()
    indent = 0
    position = 0
    while position < len(lines):
        number, line = lines[position]
        if _BORDER.match(line):
            yield from _filled(passage)
            passage = Passage()
            end = _table_end(lines, position)
            yield from _cells(lines[position:end])
            position = end
            continue
        starts_code = _starts_code(line)
        own = _indent(line)
        ends = not line.strip() or _UNDERLINE.match(line) or _BULLET.match(line) or own != indent
        if ends or _is_markup(line):
            yield from _filled(passage)
            passage = Passage()
        position += 1
        if line.strip() and not _UNDERLINE.match(line) and not _is_markup(line):
            bullet = _BULLET.match(line)
            indent = len(bullet[1]) if bullet else own
            passage.add(number, line[indent:] if bullet else line)
        if starts_code:
            yield from _filled(passage)
            passage = Passage()
            position = _code_end(lines, position, own)
    yield from _filled(passage)


def is_code(lines: list[tuple[int, str]]) -> set[int]:
    """Numbers of the lines in code blocks."""
    found: set[int] = set()
    position = 0
    while position < len(lines):
        line = lines[position][1]
        position += 1
        if _starts_code(line):
            end = _code_end(lines, position, _indent(line))
            found.update(number for number, _ in lines[position:end])
            position = end
    return found


def _filled(passage: Passage) -> Iterator[Passage]:
    if passage.lines:
        yield passage


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_markup(line: str) -> bool:
    """A directive, its option, a target, a comment of reStructuredText."""
    return bool(re.match(r"^\s*(\.\. |:[a-z-]+: *|\.\.$)", line))


def _starts_code(line: str) -> bool:
    directive = _DIRECTIVE.match(line)
    if directive:
        return directive[1] not in _PROSE_DIRECTIVES
    return line.rstrip().endswith("::") and not line.lstrip().startswith(".. ")


def _code_end(lines: list[tuple[int, str]], position: int, indent: int) -> int:
    """Position of the first line after the block that is indented deeper than ``indent``."""
    while position < len(lines):
        line = lines[position][1]
        if line.strip() and _indent(line) <= indent:
            break
        position += 1
    return position


def _table_end(lines: list[tuple[int, str]], start: int) -> int:
    """Position after a simple table: after the border that a blank line or the end follows."""
    for position in range(start + 1, len(lines)):
        last = position + 1 == len(lines) or not lines[position + 1][1].strip()
        if _BORDER.match(lines[position][1]) and last:
            return position + 1
    return start + 1


def _cells(lines: list[tuple[int, str]]) -> Iterator[Passage]:
    """The cells of a simple table; a row continues while its first column is empty."""
    border = lines[0][1]
    starts = [match.start() for match in re.finditer(r"=+", border)]
    ends = [*starts[1:], None]
    row = [Passage() for _ in starts]
    for number, line in lines[1:]:
        is_border = _BORDER.match(line)
        if is_border or line[starts[0] : ends[0]].strip():
            yield from (cell for cell in row if cell.lines)
            row = [Passage() for _ in starts]
        if is_border:
            continue
        for cell, start, end in zip(row, starts, ends, strict=True):
            text = line[start:end].strip()
            if text and text != "\\":
                cell.add(number, text)
    yield from (cell for cell in row if cell.lines)
