"""Import the storlet's file and find its class."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from storlet_daemon import author
from storlet_daemon.author.offer import offer
from storlet_daemon.worker.config import BUNDLE_LIBRARY, BUNDLE_SUFFIX, WorkerConfig

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
    is_bundle = config.file.endswith(BUNDLE_SUFFIX)
    own = [path, os.path.join(path, BUNDLE_LIBRARY)] if is_bundle else [path]
    sys.path[:] = [*own, *(each for each in sys.path if each not in (path, _PACKAGE_PARENT, ""))]
    offer()
    module_name, _, class_name = config.main.rpartition(".")
    if not module_name:
        raise LoadError(f"the main class must be given as module.Class, not {config.main!r}")
    if is_bundle:
        module = _import_of_bundle(module_name, path)
    else:
        module = _import_file(module_name, os.path.join(path, config.file))
    found = getattr(module, class_name, None)
    if not callable(found):
        raise LoadError(f"module {module_name} has no class {class_name}")
    if _makes_no_callables(found):
        raise LoadError(f"class {class_name} of module {module_name} has no method __call__")
    return found  # type: ignore[no-any-return]


def _makes_no_callables(found: object) -> bool:
    """Whether ``found`` is a plain class whose instances cannot be called."""
    if type(found) is not type:
        return False
    own = (vars(each) for each in found.__mro__[:-1])
    return not any("__call__" in each or "__new__" in each for each in own)


def _import_of_bundle(name: str, path: str) -> ModuleType:
    """Import a module or package of the bundle's own code."""
    if "." not in name and os.path.isfile(os.path.join(path, f"{name}.py")):
        return _import_file(name, os.path.join(path, f"{name}.py"))
    module = importlib.import_module(name)
    if not (getattr(module, "__file__", None) or "").startswith(path + os.sep):
        raise LoadError(f"module {name} is not the bundle's: Python has another one of that name")
    return module


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
