"""Property tests have few examples by default."""

from __future__ import annotations

from tests.support.property_tests import pytest_configure

__all__ = ["pytest_configure"]
