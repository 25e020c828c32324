"""Secrets of the account, for a running storlet: ``from storlet import secrets``.

::

    key = secrets.get("export-key")

The value is ``bytes``, exactly as the owner of the account has set it. A storlet declares the
secrets that it uses: ``X-Object-Meta-Storlet-Secrets: export-key``. A run has the values from its
start to its end; ``SecretError`` is raised for any other name, and outside of a run.
"""

from __future__ import annotations

from collections.abc import Mapping

_values: Mapping[str, bytes] = {}


class SecretError(LookupError):
    """The run has no secret of this name."""


def get(name: str) -> bytes:
    """The value of a secret."""
    value = _values.get(name)
    if value is None:
        declared = ", ".join(_values) or "none"
        raise SecretError(
            f"this run has no secret {name!r}; the storlet declares: {declared}"
            " (X-Object-Meta-Storlet-Secrets)"
        )
    return value


def names() -> list[str]:
    """The names of the secrets of this run."""
    return sorted(_values)


def begin(values: Mapping[str, bytes]) -> None:
    """Begin a run with these secrets."""
    global _values  # noqa: PLW0603  one run at a time
    _values = values


def end() -> None:
    """End the run."""
    global _values  # noqa: PLW0603
    _values = {}
