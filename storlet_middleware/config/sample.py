"""Makes ``etc/storlet.conf-sample``: every option, commented out, with default and meaning."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable
from typing import Final

from storlet_middleware.config import sections
from storlet_middleware.config.option import Option
from storlet_middleware.config.sections import ADMIN_CLASS, CLASSES

_WIDTH: Final = 100


def sample() -> str:
    """The text of the file; with its comment signs removed it means the defaults."""
    lines = [
        *_comment(
            "Options of storlets for OpenStack Swift: /etc/swift/storlet.conf, the same file on "
            "proxies and storage nodes. Every option is shown with its default. Sizes take K, M, G;"
            " unknown names are refused at start."
        ),
    ]
    for section, cls in sections.SECTIONS.items():
        lines += ["", *_comment(inspect.getdoc(cls) or ""), f"[{section}]"]
        lines += _rows(sections.options_named(section))
    lowered = ", ".join(row.name for row in sections.LOWERABLE)
    lines += [
        "",
        *_comment(
            "Trust classes. Every storlet is of class user; the operator lifts single storlets, or "
            f"all storlets of an account, to admin. Each class may lower {lowered}."
        ),
    ]
    for name in CLASSES:
        rows = [
            row for row in sections.CLASS_OPTIONS if name == ADMIN_CLASS or not row.is_admin_only
        ]
        lines += [f"[class:{name}]", *_rows(rows)]
    lines += [
        "",
        *_comment(
            "The image of one account's sandboxes; sandbox_images/README.rst says what it must "
            "contain."
        ),
        "# [image:AUTH_example]",
        "# image = example/storlets:1",
    ]
    return "\n".join(lines) + "\n"


def _rows(rows: Iterable[Option]) -> list[str]:
    lines = []
    for row in rows:
        lines += _comment(f"{'admin only: ' if row.is_admin_only else ''}{row.meaning}")
        lines.append(f"# {row.name} = {row.default}".rstrip())
    return lines


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        _WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_on_hyphens=False,
    )
