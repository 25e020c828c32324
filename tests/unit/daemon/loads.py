"""The command that creates a worker group, with defaults."""

from __future__ import annotations

from typing import Any, Final

from storlet_daemon.protocol.messages import Load, Resources

VERSION: Final = "0f" * 32


def load_of(**changes: Any) -> Load:
    """A ``Load`` of a storlet without limits; ``changes`` are its fields."""
    fields: dict[str, Any] = {
        "request": 1,
        "version": VERSION,
        "code": VERSION,
        "language": "any",
        "main": "a.B",
        "file": "a-1.jar",
        "name": "a-1.jar",
        "workers_max": 4,
        "runs_per_worker": 7,
    }
    return Load(**{**fields, **changes})


def limited(memory_bytes: int = 0, processes: int = 0) -> Load:
    """A ``Load`` with these limits."""
    return load_of(limits=Resources(memory_bytes=memory_bytes, processes=processes))
