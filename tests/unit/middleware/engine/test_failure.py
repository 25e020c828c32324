"""The first failure of a task of an invocation."""

from __future__ import annotations

import pytest

from storlet_middleware.engine.failure import Failure


def test_the_first_failure_counts_and_cancels() -> None:
    cancels: list[None] = []
    failure = Failure(lambda: cancels.append(None))
    failure.raise_error()
    failure.record(ValueError("first"))
    failure.record(ValueError("second"))
    assert cancels
    with pytest.raises(ValueError, match="first"):
        failure.raise_error()
