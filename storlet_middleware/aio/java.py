"""The Java parts: the authors' API, the worker with its JNI library, and the sample jars."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from . import cache
from .home import CHECKOUT
from .progress import run

SCRIPT: Final = CHECKOUT / "storlet_daemon/java/build.sh"
SAMPLES: Final = CHECKOUT / "storlets"
BUILD_SAMPLES: Final = SAMPLES / "build_java.sh"
API_JAR: Final = "storlet-api.jar"
SAMPLE_JARS: Final = "samples"
"""Folder of the sample jars, beside the jars of the sandbox image."""


def parts(log: Path) -> Path | None:
    """The directory of jars and ``libstorletjni.so``; ``None`` without Java sources."""
    if not SCRIPT.exists():
        return None

    def make(place: Path) -> None:
        run(["bash", SCRIPT, place], log, env=dict(os.environ), cwd=SCRIPT.parent)
        if BUILD_SAMPLES.exists():
            run(["sh", BUILD_SAMPLES, place / SAMPLE_JARS, place], log)

    return cache.made("java", _key(), make)


def needs_tools() -> bool:
    """Whether the Java parts must be built, which takes a JDK, Maven and a C compiler."""
    return SCRIPT.exists() and not cache.has("java", _key())


def _key() -> str:
    sources = [
        str(path.relative_to(CHECKOUT))
        for path in [*SAMPLES.glob("*/src"), BUILD_SAMPLES]
        if path.exists()
    ]
    return cache.tree_digest(CHECKOUT, ["storlet_daemon/java", *sources])
