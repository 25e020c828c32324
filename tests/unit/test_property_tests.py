"""Examples of property tests are the same, whichever other modules a session imports."""

from __future__ import annotations

import pytest
from hypothesis.internal.conjecture import providers

from storlet_client.bundle import archive


def test_no_example_is_a_constant_of_a_module(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--hypothesis-profile"):
        return
    assert archive
    assert len(providers._get_local_constants()) == 0
