"""Error codes that are literals in sources, found by a reader of Python, Java and C.

A code is declared once in a table (``storlet_middleware/errors.py``), or in the protocol
(``storlet_daemon/protocol/messages``).  Other languages, and the folder that the client uses too,
declare constants, which tests compare with the tables.  Everything else uses these constants.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from storlet_daemon.protocol import messages
from storlet_middleware import errors

ROOT = Path(__file__).resolve().parents[2]
JAVA = "storlet_daemon/java"
JAVA_CONSTANTS = (
    f"{JAVA}/storlet-api/src/main/java/org/openstack/storlet/internal/ErrorCodes.java",
    f"{JAVA}/storlet-worker/src/main/java/org/openstack/storlet/daemon/Failure.java",
)
C_CONSTANTS = "storlet_daemon/native/src/worker.h"
AUTHOR_CONSTANTS = "storlet_daemon/author/services.py"

TABLES = ("storlet_middleware/errors.py", "storlet_daemon/protocol/messages/")
"""The files that declare codes for all others."""

PRODUCT = ("storlet_middleware", "storlet_daemon")
LEFT_OUT = frozenset({"aio", "std", "test", "target"})

_SHAPE = re.compile(r"[a-z_]+(?:\.[a-z_]+)*")
_DOTTED = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")
#: The module that authors import.
_NOT_CODES = frozenset({"storlet.services"})
#: Words that are also other things than codes.
_AMBIGUOUS = frozenset({"internal", "protocol"})


def known() -> set[str]:
    """Every declared code."""
    codes = {*errors.TABLE, *messages.SERVICE_CODES}
    return codes | {*messages.SANDBOX_CODES, *messages.NODE_CODES}


def sources(*suffixes: str, roots: Iterable[str] = PRODUCT) -> dict[str, str]:
    """The text of each source below ``roots`` with one of ``suffixes``, by its path."""
    found = {}
    for path in sorted(path for root in roots for path in (ROOT / root).rglob("*")):
        name = path.relative_to(ROOT)
        if path.suffix in suffixes and not LEFT_OUT & set(name.parts):
            found[str(name)] = path.read_text(encoding="utf-8")
    return found


def declared_in_java(text: str) -> list[str]:
    return re.findall(r'static final String [A-Z_]+ = "([a-z._]+)";', text)


def declared_in_c(text: str) -> list[str]:
    return re.findall(r'^#define CODE_[A-Z_]+ "([a-z._]+)"$', text, re.MULTILINE)


def declared_in_python(text: str) -> list[str]:
    """Codes of the constants of a module whose names begin with ``_CODE_``."""
    return re.findall(r'^_CODE_[A-Z_]+ = "([a-z._]+)"$', text, re.MULTILINE)


def literals() -> set[tuple[str, str]]:
    """Codes that are literals where a constant belongs, each with its file.

    A literal is a code if the tables have it, or if it stands where a code is expected.
    """
    python = {name: text for name, text in sources(".py").items() if not name.startswith(TABLES)}
    found = {(name, code) for name, text in python.items() for code in literals_of_python(text)}
    for name, text in sources(".c", ".h").items():
        found |= {(name, code) for code in literals_of_c(text)}
    for name, text in sources(".java").items():
        declares = name in JAVA_CONSTANTS
        found |= {(name, code) for code in literals_of_java(text, declares=declares)}
    return found


def literals_of_python(text: str) -> Iterator[str]:
    tree = ast.parse(text)
    declared = set(declared_in_python(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _of_call(node)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value in known() - _AMBIGUOUS - _NOT_CODES - declared
        ):
            yield node.value


def _of_call(call: ast.Call) -> Iterator[str]:
    """Literals that have the shape of a code, as the argument ``code``, or of an exception."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    is_failure = re.search(r"Error|Refus|Denied|Failed|Failure|Unavailable|NodeRefused", name)
    for keyword in call.keywords:
        if keyword.arg == "code" and _has_shape(keyword.value, _SHAPE):
            yield keyword.value.value  # type: ignore[attr-defined]
    for argument in call.args if is_failure else ():
        if _has_shape(argument, _DOTTED):
            yield argument.value  # type: ignore[attr-defined]


def _has_shape(node: ast.expr, shape: re.Pattern[str]) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and shape.fullmatch(node.value) is not None
    )


def literals_of_c(text: str) -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^#define CODE_.*$", "", text, flags=re.MULTILINE)
    placed = re.findall(r'\bexplain_failure\(\s*\w+,\s*\w+,\s*"([^"]+)"', text)
    return {*placed, *_known_in(text)}


def literals_of_java(text: str, *, declares: bool = False) -> set[str]:
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    if declares:
        text = re.sub(r"static final String [^;]*;", "", text)
    thrown = re.findall(r"\bnew \w*Exception\(([^;]*);", text)
    placed = {code for each in thrown for code in re.findall(r'"([a-z_]+(?:\.[a-z_]+)+)"', each)}
    return placed | _known_in(text)


def _known_in(text: str) -> set[str]:
    return {code for code in known() - _AMBIGUOUS if f'"{code}"' in text}
