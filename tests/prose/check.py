"""Findings of one file: banned constructions, discouraged words, long sentences, long lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import layout, passages, words

MOST_WORDS: Final = 40
MOST_COLUMNS: Final = 100
#: Of news fragments, which ``CHANGELOG.rst`` indents by two.
NEWS_FOLDER: Final = "docs/changes/"
MOST_COLUMNS_OF_NEWS: Final = MOST_COLUMNS - 2
_SENTENCE: Final = re.compile(r"(?<=[.?!])[)\"'*]*\s+")
_ABBREVIATION: Final = re.compile(r"\b(e\.g|i\.e|cf|vs|etc|approx)\.$")
_WHO: Final = re.compile(r"(\w*)\W*\bwho\b", re.IGNORECASE)


@dataclass(frozen=True, order=True)
class Finding:
    """One fault of a line, and what to write instead."""

    path: str
    line: int
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}: {self.instead}"


def file(path: Path, root: Path) -> list[Finding]:
    """All findings of a file, in the order of its lines."""
    name = str(path.relative_to(root))
    blocks = passages.blocks(path)
    found = set(_long_lines(path, name, blocks))
    if path.suffix == ".py":
        read = passages.names_of_tests if name.startswith("tests/") else passages.texts
        blocks += read(path.read_text(encoding="utf-8"))
    for block in blocks:
        for passage in layout.passages(block):
            found.update(_in_passage(passage, name))
    return sorted(found)


def sentences(text: str) -> list[str]:
    """The sentences of a passage in one line."""
    found: list[str] = []
    for part in _SENTENCE.split(text):
        if found and _ABBREVIATION.search(found[-1]):
            found[-1] += f" {part}"
        else:
            found.append(part)
    return found


def _in_passage(passage: layout.Passage, name: str) -> Iterator[Finding]:
    for sentence in sentences(passage.text()):
        bare = sentence.strip()
        for row in words.ROWS if words.ANY.search(bare) else ():
            for match in row.pattern.finditer(bare):
                fragment = match[0]
                if not _is_about_a_person(fragment):
                    line = passage.line_of(fragment)
                    yield Finding(name, line, f'"{_shown(fragment)}"', row.instead)
        length = sum(1 for word in sentence.split() if re.search(r"[\w§]", word))
        if length > MOST_WORDS:
            first = " ".join(sentence.split()[:4])
            text = f'"{first} ..." has {length} words'
            yield Finding(name, passage.line_of(first), text, f"at most {MOST_WORDS}: split it")


def _shown(fragment: str) -> str:
    if len(fragment) <= 40:
        return fragment
    return fragment[:40].rsplit(" ", 1)[0] + " ..."


def _is_about_a_person(fragment: str) -> bool:
    match = _WHO.fullmatch(fragment)
    return match is not None and words.is_person(match[1])


def _long_lines(path: Path, name: str, blocks: list[passages.Block]) -> Iterator[Finding]:
    """Prose lines that are too long; code blocks and single long words are exempt."""
    source = path.read_text(encoding="utf-8", errors="replace").splitlines()
    most = MOST_COLUMNS_OF_NEWS if name.startswith(NEWS_FOLDER) else MOST_COLUMNS
    for block in blocks:
        exempt = layout.is_code(block)
        for number, _ in block:
            line = source[number - 1]
            is_one_word = len([word for word in line.split() if word not in {"-", "*", "#"}]) <= 1
            if len(line) > most and number not in exempt and not is_one_word:
                text = f"{len(line)} columns"
                yield Finding(name, number, text, f"at most {most}: wrap the line")
