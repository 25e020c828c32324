"""The languages of storlets, one row each, for manifests, bundles, projects and the command.

``storlet_daemon/runtimes/table.py`` has a row of the same name: what a sandbox needs to run the
language. Neither side can import the other's; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Form(Enum):
    """The form of the code in a bundle, and with it the way to build, check and run it."""

    #: Sources as they are, and libraries below ``code/lib``; ``main`` names a class of a module.
    MODULES = "modules"
    #: Jars directly below ``code/``; ``main`` names a class in one of them.
    JARS = "jars"
    #: The files that the project's own build makes; ``main`` names one of them.
    FILES = "files"


@dataclass(frozen=True)
class Language:
    """One row.

    ``name`` is its name in manifests, ``title`` that in texts. ``keys`` are those of a manifest
    that other languages do not have. ``suffix`` is that of a plain file whose language it is, if no
    other is named; empty if a name shows nothing. ``main`` is the pattern of the entry point, with
    its rule in words; ``None`` if it is one of ``files``.
    """

    name: str
    title: str
    form: Form
    keys: tuple[str, ...]
    suffix: str = ""
    main: re.Pattern[str] | None = None
    main_rule: str = ""


_NAME = r"[A-Za-z_$][A-Za-z0-9_$]*"

LANGUAGES: tuple[Language, ...] = (
    Language(
        name="python",
        title="Python",
        form=Form.MODULES,
        keys=("requirements", "language-version"),
        suffix=".py",
        main=re.compile(rf"{_NAME}(\.{_NAME})+"),
        main_rule="module.Class",
    ),
    Language(
        name="java",
        title="Java",
        form=Form.JARS,
        keys=("maven",),
        suffix=".jar",
        main=re.compile(rf"{_NAME}(\.{_NAME})*"),
        main_rule="the full name of a class",
    ),
    Language(
        name="native",
        title="Native",
        form=Form.FILES,
        keys=("build", "files", "arguments"),
    ),
)
NAMES: tuple[str, ...] = tuple(row.name for row in LANGUAGES)
"""The names for manifests; the first is that of new projects."""


def language(name: str) -> Language | None:
    """The row of the language that manifests call ``name``."""
    return next((row for row in LANGUAGES if row.name == name), None)


def form_of(document: Mapping[str, Any]) -> Form | None:
    """The form of the code of a manifest; ``None`` if its language is unknown."""
    row = language(document.get("language", ""))
    return None if row is None else row.form


def name_of_suffix(suffix: str) -> str:
    """The language of a plain file with this suffix; empty if that shows none."""
    return next((row.name for row in LANGUAGES if suffix and row.suffix == suffix), "")


def owners_of(key: str) -> list[str]:
    """The languages that have ``key`` in a manifest; none if it is of all."""
    return [row.name for row in LANGUAGES if key in row.keys]
