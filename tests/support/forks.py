"""Processes of unit tests, which begin with their modules imported.

Each is a fork of a process of :mod:`multiprocessing` that imports :data:`MODULES` when the first
one starts.  The import takes longer than most of these processes run.
"""

from __future__ import annotations

import multiprocessing
from typing import Final

#: Modules with functions that such a process begins with.  A list for all tests: the processes of
#: all modules that a worker of pytest runs are forks of the same one.
MODULES: Final = (
    "tests.unit.middleware.admission.admission_process",
    "tests.unit.middleware.engine.test_code_cache",
    "tests.unit.sandboxd.test_identity",
)
FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([*MODULES])
