"""Reads files and yields their prose: documents, docstrings, comments, texts and names of tests.

A row of :data:`READERS` says which files are read and how. ``blocks`` of a file are runs of
numbered lines; :mod:`tests.prose.layout` splits them into passages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from . import layout

Block = list[tuple[int, str]]

#: Of a string that counts as a text.
LEAST_WORDS: Final = 3

#: Folders that hold build output, caches or clusters.
LEFT_OUT: Final = frozenset({
    ".git", ".aio", ".box", "target", "build", "dist", "_build", "results", "__pycache__",
    ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis",
})  # fmt: skip
#: The stars of a block comment, inline tags of Javadoc, HTML.
_JAVADOC: Final = re.compile(r"(?m)^\s*\* ?|^\*|\{@\w+ ([^}]*)\}|</?\w+>")
#: Comments that are instructions to a tool.
_PRAGMA: Final = re.compile(r"#\s*(noqa|type:|fmt:|pragma|shellcheck|!|-\*-).*$")
_C_COMMENT: Final = re.compile(
    r'"(?:\\.|[^"\\\n])*"'  # strings and characters hide what looks like a comment
    r"|'(?:\\.|[^'\\\n])*'"
    r"|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)",
    re.DOTALL,
)
#: The same for Python; the standard tokenizer takes 20 times as long.
_PYTHON_COMMENT: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""'
    r"|'''(?:\\.|[^\\])*?'''"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|(?P<comment>#[^\n]*)",
    re.DOTALL,
)


def files(root: Path) -> list[Path]:
    """Every file below ``root`` that one of the readers reads."""
    found = [path for path in root.rglob("*") if reader_of(path) and path.is_file()]
    return sorted(p for p in found if not LEFT_OUT & set(p.relative_to(root).parts))


def blocks(path: Path) -> list[Block]:
    """The prose of a file as runs of numbered lines."""
    reader = reader_of(path)
    if reader is None:
        return []
    return list(reader(path.read_text(encoding="utf-8", errors="replace")))


def reader_of(path: Path) -> Callable[[str], Iterator[Block]] | None:
    """The reader for a file of this name, or None."""
    return READERS.get(path.suffix)


def document(text: str) -> Iterator[Block]:
    """The whole text."""
    yield _numbered(text, 1)


def python(text: str) -> Iterator[Block]:
    """Docstrings, attribute docstrings and comments."""
    yield from _docstrings(text)
    yield from _python_comments(text)


def names_of_tests(text: str) -> Iterator[Block]:
    """Each name of a test as a sentence."""
    for match in re.finditer(r"^ *(?:async )?def test_(\w+)", text, re.MULTILINE):
        number = text.count("\n", 0, match.start()) + 1
        yield [(number, match[1].replace("_", " "))]


def texts(text: str) -> Iterator[Block]:
    """Texts of errors, of help and of a log: the strings of Python code that have three words.

    Lines that are indented are examples in a text of several lines.
    """
    for node, value in _strings(ast.parse(text)):
        lines = [line for line in value.splitlines() if not line.startswith("  ")]
        for line in lines:
            if len(re.findall(r"[a-z]{2,}(?= |$)", line)) >= LEAST_WORDS:
                yield [(node.lineno, line)]


def c_like(text: str) -> Iterator[Block]:
    """Comments of Java and C."""
    lines: Block = []
    for match in _C_COMMENT.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        if match["line"]:
            new = [(number, match["line"].removeprefix("//"))]
        elif match["block"]:
            inner = match["block"].removeprefix("/*").removesuffix("*/")
            new = _numbered(_JAVADOC.sub(r"\1", inner), number)
        else:
            continue
        if lines and new[0][0] != lines[-1][0] + 1:
            yield lines
            lines = []
        lines.extend(new)
    if lines:
        yield lines


def shell(text: str) -> Iterator[Block]:
    """Comment lines that begin with a number sign."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("#") and not _PRAGMA.match(bare):
            found.append((number, line.replace("#", " ", 1)))
    yield from _runs(found)


READERS: Final[dict[str, Callable[[str], Iterator[Block]]]] = {
    ".rst": document,
    ".py": python,
    ".java": c_like,
    ".c": c_like,
    ".h": c_like,
    ".sh": shell,
}


def _numbered(text: str, first: int) -> Block:
    return list(enumerate(text.splitlines(), first))


def _docstrings(text: str) -> Iterator[Block]:
    source = text.splitlines()
    for node in _statements(ast.parse(text)):
        value = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
            continue
        lines = source[value.lineno - 1 : value.end_lineno]
        quotes = re.match(r"\s*[rRuU]*(\"\"\"|'''|\"|')", lines[0])
        if quotes is None:
            continue
        margin = len(lines[0]) - len(lines[0].lstrip())
        first = " " * margin + lines[0][quotes.end() :]
        block = list(enumerate([first, *lines[1:]], value.lineno))
        number, last = block[-1]
        block[-1] = (number, last.rstrip().removesuffix(quotes[1]))
        yield block


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below ``node``, without their expressions, which are most of a tree."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, field, ()):
            yield each
            yield from _statements(each)


def _strings(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """The strings below ``node`` that are no docstrings; a replacement field is a literal."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.JoinedStr):
            parts = (
                p.value if isinstance(p, ast.Constant) else layout.LITERAL for p in child.values
            )
            yield child, "".join(map(str, parts))
        elif isinstance(child, ast.Constant):
            if isinstance(child.value, str):
                yield child, child.value
        else:
            yield from _strings(child)


def _python_comments(text: str) -> Iterator[Block]:
    """Comments; those of neighbouring lines in one column are one block."""
    found: dict[int, list[tuple[int, str]]] = {}
    number, counted = 1, 0
    for match in _PYTHON_COMMENT.finditer(text):
        if not match["comment"]:
            continue
        number += text.count("\n", counted, match.start())
        counted = match.start()
        comment = _PRAGMA.sub("", match["comment"]).lstrip("#:")
        if comment.strip():
            column = counted - text.rfind("\n", 0, counted)
            found.setdefault(column, []).append((number, comment))
    for column in found.values():
        yield from _runs(column)


def _runs(lines: Block) -> Iterator[Block]:
    """Split where a line number is missing."""
    run: Block = []
    for number, text in lines:
        if run and number != run[-1][0] + 1:
            yield run
            run = []
        run.append((number, text))
    if run:
        yield run
