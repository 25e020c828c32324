"""User metadata of objects: the headers that contain it, and the subset that storlets see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from storlet_middleware import names

_PREFIX: Final = names.OBJECT_META.lower()
#: Prefix of the declarations of storlets about themselves.
_DECLARATIONS: Final = names.STORLET_META.lower()


def user_metadata(headers: Mapping[str, str], prefix: str = names.OBJECT_META) -> dict[str, str]:
    """``X-Object-Meta-*`` of an answer as text, keys with the prefix; bytes that are not UTF-8 are
    replaced.
    """
    return {
        key: value.encode("latin-1").decode("utf-8", "replace")
        for key, value in headers.items()
        if key.lower().startswith(prefix.lower())
    }


def user_metadata_wsgi(headers: Any) -> dict[str, str]:
    """The user metadata of an object as WSGI headers, without what storlets declare about
    themselves.
    """
    return {
        key: value
        for key, value in headers.items()
        if key.lower().startswith(_PREFIX) and not key.lower().startswith(_DECLARATIONS)
    }


def storlet_metadata(headers: Any) -> dict[str, str]:
    """An object's user metadata for a storlet: keys without prefix, and without storlets' own
    declarations.
    """
    return {
        _text(key[len(_PREFIX) :]): _text(value)
        for key, value in headers.items()
        if key.lower().startswith(_PREFIX) and not key.lower().startswith(_DECLARATIONS)
    }


def _text(value: str) -> str:
    return value.encode("latin-1").decode("utf-8", "replace")
