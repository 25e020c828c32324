"""WSGI strings: bytes of UTF-8 that look like Latin-1 text (PEP 3333)."""

from __future__ import annotations


def text(value: str) -> str:
    """A WSGI string (Latin-1 view of UTF-8 bytes) as text; raises ``UnicodeDecodeError``."""
    return value if value.isascii() else value.encode("latin-1").decode("utf-8")


def wsgi(value: str) -> str:
    """The reverse of :func:`text`."""
    return value if value.isascii() else value.encode().decode("latin-1")
