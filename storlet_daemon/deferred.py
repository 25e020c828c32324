"""Import a module on first use, so that an idle sandbox does not hold it in memory.

This is for a module that another one imports at its top and hardly ever uses. The standard
library's ``importlib.util.LazyLoader`` does not help there: an ``import`` statement for a lazy
module loads it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType


class _Deferred(ModuleType):
    """Stands in for the module of its name; imports it when an attribute is read."""

    def __getattr__(self, name: str) -> object:
        self.withdraw()
        return getattr(importlib.import_module(self.__name__), name)

    def withdraw(self) -> None:
        """Remove the stand-in, so that the next import finds the module itself."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]


@contextlib.contextmanager
def deferred(name: str) -> Iterator[None]:
    """Give imports in this context a stand-in for ``name``; later ones get the module itself."""
    if name in sys.modules:
        yield
        return
    stand_in = sys.modules[name] = _Deferred(name)
    try:
        yield
    finally:
        stand_in.withdraw()
