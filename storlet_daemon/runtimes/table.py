"""The languages that a sandbox runs, each once."""

from __future__ import annotations

from collections.abc import Mapping

from storlet_daemon.runtimes import Places, Runtime
from storlet_daemon.runtimes.java import JavaRuntime
from storlet_daemon.runtimes.python import PythonRuntime


def table(places: Places) -> Mapping[str, Runtime]:
    """The runtime of each language, by the name that storlets give it."""
    return {"python": PythonRuntime(places), "java": JavaRuntime(places)}
