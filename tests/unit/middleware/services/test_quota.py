"""Operations and bytes of a run are counted, and refused above its limits."""

from __future__ import annotations

import pytest

from storlet_middleware.engine.services import ServiceUsage
from storlet_middleware.engine.task import ServiceLimits
from storlet_middleware.services.quota import Quota
from storlet_middleware.services.requests import StoreRefusal


def test_the_usage_has_all_that_was_counted() -> None:
    quota = Quota(ServiceLimits())
    quota.add_operation()
    quota.add_read(7)
    quota.add_written(5)
    quota.add_written(1)
    assert quota.usage == ServiceUsage(1, 7, 6)


def test_operations_above_the_limit_are_counted_and_refused() -> None:
    quota = Quota(ServiceLimits(operations=1))
    quota.add_operation()
    quota.require_operations()
    quota.add_operation()
    with pytest.raises(StoreRefusal, match="Service-Operations"):
        quota.require_operations()
    assert quota.usage.operations == 2


def test_bytes_in_both_directions_have_one_limit() -> None:
    quota = Quota(ServiceLimits(bytes=10))
    quota.add_read(6)
    quota.add_written(4)
    for add in (quota.add_read, quota.add_written):
        with pytest.raises(StoreRefusal, match="Service-Bytes"):
            add(1)
