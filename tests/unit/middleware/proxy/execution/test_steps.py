"""The steps of an execution: storlet versions and slots."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_middleware.admission.controller import Admission, Slot
from storlet_middleware.errors import InternalError
from storlet_middleware.proxy.execution.steps import Settings, Step
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.object_nodes import VERSION
from tests.unit.middleware.support import make_config


def test_a_storlet_that_was_not_resolved_is_a_defect() -> None:
    step = Step("tx-1", Settings({}))
    with pytest.raises(InternalError):
        _ = step.storlet
    step.version = VERSION
    assert step.storlet == VERSION


def test_a_slot_is_released_once(short_dir: Path) -> None:
    admission = Admission(make_config(short_dir, admission__invocations="2"), Logger())

    def take() -> Slot | None:
        return admission.acquire_at_once(admission.claim("AUTH_test", "g", 1))

    step = Step("tx-1", Settings({}), slot=take())
    assert step.slot is not None
    assert take() is None  # an account has at most half of the node's slots
    step.release_slot()
    step.release_slot()
    assert step.slot is None
    again = take()
    assert again is not None
    step.release_slot()
    assert take() is None
    again.release()
