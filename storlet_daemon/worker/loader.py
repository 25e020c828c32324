"""Import the storlet's file and find its class."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from storlet_daemon import author
from storlet_daemon.worker.config import WorkerConfig

StorletClass = Callable[[author.StorletLogger], Any]
"""The author's class as the worker uses it: called with a logger, it returns a callable."""

_PACKAGE_PARENT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class LoadError(Exception):
    """The storlet's file does not hold what its manifest declares."""


def load_class(config: WorkerConfig) -> StorletClass:
    """Import the storlet's file as the module that ``main`` names, and return its class.

    The execution path comes first on the import path, and the folder of this package is removed
    from it. The file is loaded by its path, so a storlet may have the name of a module that Python
    has loaded already; only then it is not in ``sys.modules``.
    """
    path = config.execution_path
    sys.dont_write_bytecode = True
    sys.path[:] = [path, *(each for each in sys.path if each not in (path, _PACKAGE_PARENT, ""))]
    module_name, _, class_name = config.main.rpartition(".")
    if not module_name:
        raise LoadError(f"the main class must be given as module.Class, not {config.main!r}")
    module = _import_file(module_name, os.path.join(path, config.file))
    found = getattr(module, class_name, None)
    if not callable(found):
        raise LoadError(f"module {module_name} has no class {class_name}")
    return found  # type: ignore[no-any-return]


def _import_file(name: str, file: str) -> ModuleType:
    if not os.path.isfile(file):
        raise LoadError(f"the storlet's file {os.path.basename(file)} is missing")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise LoadError(f"{os.path.basename(file)} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module
