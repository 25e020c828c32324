"""The services of a run's storlets: which storlets have them, and their end with the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storlet_middleware.engine.storlet_version import StorletVersion
from storlet_middleware.engine.task import ServiceLimits
from storlet_middleware.errors import StorletError
from storlet_middleware.proxy.buffers import Buffers
from storlet_middleware.proxy.requested_steps import RequestedStep, step_of
from storlet_middleware.proxy.run_services import RunServices
from storlet_middleware.services.nesting import Nesting, nesting_of
from storlet_middleware.wsgi.disconnect import CANCELLATION
from storlet_middleware.wsgi.storlet_request import StorletRequest
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import make_config

ACCOUNT = "AUTH_test"


class Outputs:
    may_grow = False


@pytest.fixture
def outputs() -> Any:
    return Outputs()


@pytest.fixture
def proxy(tmp_path: Path) -> Any:
    return SimpleNamespace(
        config=make_config(tmp_path),
        app=None,
        front=None,
        logger=Logger(),
        buffers=Buffers(1 << 20, 1 << 20),
    )


def declaring(*services: str) -> RequestedStep:
    request = StorletRequest("GET", "v1", ACCOUNT, "a.py", None, None, {})
    version = StorletVersion(ACCOUNT, "a.py", "python", "", "a.A", (), services=services)
    return replace(step_of("tx-1", request), version=version)


def test_a_storlet_has_the_services_that_it_declares(proxy: Any, outputs: Any) -> None:
    services = RunServices(proxy, {}, outputs)
    services.begin(["a.py"], "tx-1")
    channel = services.of_step(declaring("read", "list"), ServiceLimits())
    assert channel is not None
    assert channel.operations == ("read", "list")
    assert not outputs.may_grow
    assert services.of_step(declaring(), ServiceLimits()) is None


def test_a_storlet_that_creates_objects_lets_the_outputs_grow(proxy: Any, outputs: Any) -> None:
    services = RunServices(proxy, {}, outputs)
    services.begin(["a.py"], "tx-1")
    services.of_step(declaring("write"), ServiceLimits())
    assert outputs.may_grow


def test_a_request_that_may_not_act_for_its_caller_has_no_services(
    proxy: Any, outputs: Any
) -> None:
    services = RunServices(proxy, {"REMOTE_USER": ".wsgi.tempurl"}, outputs)
    services.begin(["a.py"], "tx-1")
    assert services.of_step(declaring("read"), ServiceLimits()) is None


def test_a_run_in_a_run_of_itself_is_refused(proxy: Any, outputs: Any) -> None:
    environ: dict[str, Any] = {}
    Nesting().inside(["a.py"], "tx-0").put(environ)
    services = RunServices(proxy, environ, outputs)
    with pytest.raises(StorletError, match="without end"):
        services.begin(["a.py"], "tx-1")
    assert services.of_step(declaring("read"), ServiceLimits()) is None


def test_the_end_of_a_run_ends_the_runs_that_it_has_started(
    proxy: Any, outputs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Nesting] = []
    inside = Nesting.inside

    def record(*arguments: Any) -> Nesting:
        made.append(inside(*arguments))
        return made[-1]

    monkeypatch.setattr(Nesting, "inside", record)
    services = RunServices(proxy, {}, outputs)
    services.end()
    services.begin(["a.py"], "tx-1")
    assert services.of_step(declaring("read"), ServiceLimits()) is not None
    inner: dict[str, Any] = {}
    made[0].put(inner)
    assert nesting_of(inner).parent == "tx-1"
    assert not inner[CANCELLATION].is_cancelled
    services.end()
    assert inner[CANCELLATION].is_cancelled
