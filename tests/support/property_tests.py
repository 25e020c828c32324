"""Profiles of the property tests: how many examples each has.  The conftest.py of a folder with
property tests imports :func:`pytest_configure`.

``brief`` is the default: the same examples on every machine and in every run. ``thorough`` has
twenty times as many, others in each run: ``--hypothesis-profile thorough``, for a change of what
they test. Tests with ``max_examples`` of their own have as many in both.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

#: An example of a test of a database engine takes 30 to 100 ms.
BRIEF: Final = 15
#: Limits of time would measure the machine.
COMMON: Final[dict[str, Any]] = {
    "database": None,
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
}

settings.register_profile("brief", max_examples=BRIEF, derandomize=True, **COMMON)
settings.register_profile("thorough", max_examples=20 * BRIEF, derandomize=False, **COMMON)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the default: hypothesis itself loads the profile of its option.

    Some examples are constants of the modules that are imported.  ``brief`` has none of them: they
    differ with the tests that are collected, and each worker would parse all modules.
    """
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("brief")
        providers.is_local_module_file = lambda _path: False
