"""The native parts of the sandbox: the worker of programs and shared objects, and ``storlet.h``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from . import cache
from .home import CHECKOUT
from .progress import run

SCRIPT: Final = CHECKOUT / "storlet_daemon/native/build.sh"
HEADER: Final = "storlet.h"


def parts(log: Path) -> Path | None:
    """The directory of the worker and of the authors' header; ``None`` without its sources."""
    if not SCRIPT.exists():
        return None
    return cache.made("native", _key(), lambda place: run(["sh", SCRIPT, place], log))


def needs_tools() -> bool:
    """Whether the native parts must be built, which takes a C compiler and a library."""
    return SCRIPT.exists() and not cache.has("native", _key())


def _key() -> str:
    return cache.tree_digest(CHECKOUT, ["storlet_daemon/native"])
