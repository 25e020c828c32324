"""Imports of test modules by the workers of pytest-xdist, in shares.

Each worker imports all modules of tests, and in a new clone none of them has byte code.  In the
same order, all workers would compile the same module at the same time.  So each first imports a
share of its own, and then finds the byte code of the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.cluster import CHECKOUT


def import_share(config: pytest.Config) -> None:
    """In a worker, import its share of the modules that the session will import.

    :param config: of a worker, or of a session without workers, which imports nothing here.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    number = int(worker["workerid"].removeprefix("gw"))
    for module in share(modules(config), number, worker["workercount"]):
        # The collection imports one that fails again, and reports its error or its skip.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(module.relative_to(CHECKOUT).with_suffix("").parts))


def modules(config: pytest.Config) -> list[Path]:
    """The modules of the checkout below the folders among the arguments."""
    folders = (config.invocation_params.dir / argument for argument in config.args)
    below = (folder for folder in folders if folder.is_relative_to(CHECKOUT))
    found = {module for folder in below for module in folder.rglob("test_*.py")}
    ignored = config.hook.pytest_ignore_collect
    return [module for module in found if not ignored(collection_path=module, config=config)]


def share(found: Iterable[Path], number: int, workers: int) -> list[Path]:
    """The modules of the worker ``number``; all shares have about the same size in bytes."""
    by_size = sorted(found, key=lambda module: (-module.stat().st_size, module))
    return by_size[number::workers]
