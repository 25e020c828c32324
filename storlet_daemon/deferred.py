"""A module that is imported only when something of it is used: memory that an idle sandbox does not hold.

For a module that another one imports at its head and hardly ever uses. The standard library's own way to do this
(``importlib.util.LazyLoader``) does not help there: an ``import`` of a module that waits makes it load.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType


class _Deferred(ModuleType):
    """Stands for the module of its name, which it asks for every name that is wanted."""

    def __getattr__(self, name: str) -> object:
        self.withdraw()
        return getattr(importlib.import_module(self.__name__), name)

    def withdraw(self) -> None:
        """Let the next import find the module itself."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


@contextlib.contextmanager
def deferred(name: str) -> Iterator[None]:
    """What is imported meanwhile gets a stand-in for the module ``name``; who imports it later gets the module itself."""
    if name in sys.modules:
        yield
        return
    stand_in = sys.modules[name] = _Deferred(name)
    try:
        yield
    finally:
        stand_in.withdraw()
