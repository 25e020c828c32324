"""A file of ours as the only one of a file system of the engine."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from packages import reason
from sql_check import SqlError
from sql_engine import Engine

PATH = "object://input"


def register(engine: Engine, opened: Callable[[], Any], size: Callable[[], int]) -> None:
    """Give the engine the file, whose path must be allowed, too.

    :param opened: gives the file, each time that the engine opens it.
    :param size: gives its size.
    :raises SqlError: the image has no ``fsspec``.
    """
    try:
        # Not with the module: most queries of std:sql need no file.
        import fsspec
    except ImportError:
        raise SqlError(reason(engine.storlet, "fsspec")) from None

    class OneFile(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "object"

        def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            return opened()

        def exists(self, path: str, **_: Any) -> bool:
            return True

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": size(), "type": "file"}

        def size(self, path: str) -> int:
            return size()

        def modified(self, path: str) -> datetime.datetime:
            return datetime.datetime.fromtimestamp(0, datetime.UTC)

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

    engine.register(OneFile(skip_instance_cache=True))
