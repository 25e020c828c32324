"""Untrusted text made safe for the operator's log: one line, no terminal escapes, bounded."""

from __future__ import annotations

from typing import Final

SHOWN_MAX: Final = 200


def shown(text: object, limit: int = SHOWN_MAX) -> str:
    """:func:`plain` as one value of a ``key=value`` line: quoted when it has spaces."""
    safe = plain(text, limit).replace('"', "'")
    return f'"{safe}"' if not safe or " " in safe or "=" in safe else safe


def plain(text: object, limit: int = SHOWN_MAX) -> str:
    """``text`` with everything but printable ASCII escaped, its first ``limit`` characters."""
    raw = str(text)
    safe = "".join(
        char if " " <= char <= "~" and char != "\\" else _escaped(char) for char in raw[:limit]
    )
    return safe + "..." if len(raw) > limit else safe


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
