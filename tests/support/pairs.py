"""Pairs of parameters: a test has each value of two parameters, but not each pair of values."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")


def paired(request: pytest.FixtureRequest, number: int, values: Sequence[T]) -> T:
    """The value for one run of a test.

    The name of the test decides which value comes first, so the tests of a module have all pairs.

    :param number: of the other parameter's value; the next number has the next value.
    """
    turn = zlib.crc32(request.function.__name__.encode()) + number
    return values[turn % len(values)]
