"""The package ``storlet``, from which authors import ``services`` and ``secrets``.

``services`` is loaded on first use, because workers of most storlets never need its 0.4 MB. Modules
of the standard library that it imports are in memory before: afterwards the storlet's folder comes
first on the import path.  A run of the client, without a sandbox, offers the same package.
"""

from __future__ import annotations

import importlib.util
import sys
import threading  # noqa: F401  services need it; see the module
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from . import account_secrets

NAMES = _PACKAGE, _SERVICES, _SECRETS = "storlet", "storlet.services", "storlet.secrets"
"""The names of the package and its modules."""


class _Package(ModuleType):
    """``storlet``."""

    def __init__(self) -> None:
        super().__init__(_PACKAGE)
        self.__path__: list[str] = []  # so that it counts as a package
        self.secrets = account_secrets

    def __getattr__(self, name: str) -> object:
        if name == "services":
            return importlib.import_module(_SERVICES)
        raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")


class _ServicesFinder:
    """Finds ``storlet.services``, and loads it."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _SERVICES or not isinstance(sys.modules.get(_PACKAGE), _Package):
            return None
        return importlib.util.spec_from_loader(name, _ServicesFinder)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        """The module itself: a thread that imports it at the same time must get no other one."""
        from . import services  # noqa: PLC0415  see the module

        spec.loader_state = services.__spec__
        return services

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Give the module, which was loaded under its own name, its specification back."""
        module.__spec__ = module.__spec__.loader_state  # type: ignore[union-attr]


def offer() -> None:
    """Make ``from storlet import services, secrets`` find the modules, unless there is another
    ``storlet``: the author's own, or one of a dependency.
    """
    if _PACKAGE in sys.modules or importlib.util.find_spec(_PACKAGE) is not None:
        return
    sys.modules[_PACKAGE] = _Package()
    sys.modules[_SECRETS] = account_secrets
    if _ServicesFinder not in sys.meta_path:
        sys.meta_path.append(_ServicesFinder)
