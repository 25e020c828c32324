"""The unit tests that the checker ``coverage`` runs; ``make test`` after ``make check`` runs the
others.

Tracing makes a test several times slower, so a test that adds no covered statement is left out: by
the marker ``untraced``, by that of hypothesis, or by its place in :data:`UNTRACED_PLACES`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

UNIT: Final = Path(__file__).resolve().parents[1] / "unit"

#: Markers of the tests that are left out; modules that contain neither word have none of them,
#: unless they are in one of the places.
UNTRACED: Final = ("hypothesis", "untraced")

#: Folders and modules below ``tests/unit`` whose tests are all left out, because coverage does not
#: measure what they test: samples, client, benchmark, linter.
UNTRACED_PLACES: Final = (
    "bench",
    "client",
    "prose",
    "test_samples.py",
)

#: Arguments of pytest.  The modules of the places are not imported.
SELECTION: Final = (
    "tests/unit",
    *(f"--ignore=tests/unit/{place}" for place in UNTRACED_PLACES),
    "-m",
    "not hypothesis and not untraced and not alone",
)


@cache  # called for each test of the module
def is_in_untraced_place(module: Path) -> bool:
    """Whether all tests of the module have the marker ``untraced``."""
    return not {module, *module.parents}.isdisjoint(UNIT / place for place in UNTRACED_PLACES)


def may_be_untraced(module: Path) -> bool:
    """Whether the module can have a test that is left out; it is not imported to find out."""
    if is_in_untraced_place(module):
        return True
    text = module.read_text(encoding="utf-8")
    return any(word in text for word in UNTRACED)
