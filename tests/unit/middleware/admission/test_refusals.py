"""The errors of invocations that got no slot: by their obstacle, and when to try again."""

from __future__ import annotations

from pathlib import Path

import eventlet
import pytest

from storlet_middleware.admission.fairness import Capacity, Claim, Load, Obstacle
from storlet_middleware.admission.refusals import refused
from storlet_middleware.concurrency import spawn
from storlet_middleware.errors import NodeBusy, StorletError, TenantBusy
from tests.unit.middleware.admission.slots import new, take
from tests.unit.middleware.logger import Logger


@pytest.mark.parametrize(
    ("obstacle", "kind", "code"),
    [
        (Obstacle.SHARE, TenantBusy, "tenant-busy"),
        (Obstacle.NODE, NodeBusy, "node-busy"),
        (None, NodeBusy, "node-busy"),
    ],
)
def test_a_refusal_is_an_error_by_its_obstacle_and_is_counted(
    obstacle: Obstacle | None, kind: type[StorletError], code: str
) -> None:
    logger, load, claim = Logger(), Load(Capacity(8, 1 << 30)), Claim(b"a" * 16, b"g" * 16, 1, 1.0)
    load.run(claim)
    error = refused(logger, load, claim, obstacle, "within 3 s")
    assert isinstance(error, kind)
    assert str(error).endswith("within 3 s")
    assert logger.stats == ["storlet.admission.refused", f"storlet.admission.refused.{code}"]


def test_retry_after_grows_with_the_queue_and_with_what_runs_take(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    for module in ("controller", "queue", "refusals"):
        name = f"storlet_middleware.admission.{module}.monotonic"
        monkeypatch.setattr(name, lambda: clock[0])
    one = new(run_dir, admission__invocations="4", admission__queue_per_tenant="3")
    for _ in range(3):
        slot = take(one)
        clock[0] += 6.0
        slot.release()
    held = [take(one), take(one)]
    tasks = [spawn(take, one) for _ in range(3)]
    eventlet.sleep(0.01)
    with pytest.raises(TenantBusy) as caught:
        take(one)
    assert caught.value.retry_after == 12, "four to go, two at a time, six seconds each"
    for task in tasks:
        task.kill()
    for slot in held:
        slot.release()


def test_errors_keep_their_blame() -> None:
    assert [TenantBusy("x").status, NodeBusy("x").status] == [429, 503]
    assert issubclass(TenantBusy, StorletError)
