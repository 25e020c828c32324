"""The limit of concurrent runs of a proxy process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from storlet_middleware.config import parse
from storlet_middleware.errors import NodeBusy
from storlet_middleware.proxy.execution.result import LocalResult
from storlet_middleware.proxy.shared import Proxy as SharedProxy
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import RUN, FakeSwift, Proxy

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


def test_a_run_above_the_accounts_maximum_is_429_with_retry_after(
    make_proxy: Make,
) -> None:
    proxy = make_proxy(invocation__max_inflight_per_tenant="1")
    first = proxy.start("GET", "c/o", RUN)
    second = proxy.call("GET", "c/o", RUN)
    assert (second.status, second.error, second.headers["Retry-After"]) == (429, "tenant.busy", "1")
    assert second.line == "429 Too Many Requests"
    first.app_iter.close()
    assert proxy.call("GET", "c/o", RUN).status == 200


def test_an_answer_that_fails_to_close_is_not_counted_any_more(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(self: Any) -> None:
        original(self)
        raise OSError("not now")

    original = LocalResult.close
    monkeypatch.setattr(LocalResult, "close", close)
    answer = proxy.start("GET", "c/o", RUN)
    with pytest.raises(OSError, match="not now"):
        answer.app_iter.close()
    assert not proxy.filter._proxy._inflight


def test_a_process_reserves_runs_for_accounts_without_a_run(
    swift: FakeSwift,
) -> None:
    proxy = SharedProxy(swift, parse(""), Logger(), 60, max_runs=16)
    for _ in range(14):
        proxy.acquire("a")
    with pytest.raises(NodeBusy):
        proxy.acquire("a")
    proxy.acquire("b")
    proxy.acquire("c")
    with pytest.raises(NodeBusy):
        proxy.acquire("d")
    proxy.release("a")
    proxy.acquire("d")
    with pytest.raises(NodeBusy):
        proxy.acquire("b")
