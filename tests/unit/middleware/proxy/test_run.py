"""Runs that a client requests: the way of a GET through the filter."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storlet_daemon.protocol import messages
from tests.unit.middleware.storlets import failing
from tests.unit.middleware.support import RUN, FakeSwift, Node, Proxy, assert_idle

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")
Make = Callable[..., Proxy]


def test_get_runs_the_storlet_on_plain_data(proxy: Proxy, swift: FakeSwift) -> None:
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data) == (200, b"HELLO")
    assert answer.headers["X-Storlet-Ran-On"] == "proxy"
    assert answer.headers["X-Storlet-Invocation"].startswith("txtest-")
    assert "auth;dur=" in answer.headers["Server-Timing"]
    assert_idle(proxy)
    assert "storlet.GET.ok.timing" in proxy.logger.stats
    assert "code=ok" in proxy.logger.text


def test_a_storlet_that_fails_before_output_is_422_and_plain_data_never_leaves(
    make_proxy: Make, node: Node
) -> None:
    proxy = make_proxy(failing())
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert b"hello" not in answer.data
    assert b"Traceback: secret" in answer.data
    assert len(node.workers.runs) == 1
    assert "secret" not in proxy.logger.text
    assert_idle(proxy)


def test_a_node_that_cannot_start_sandboxes_is_503_with_retry_after(
    proxy: Proxy, node: Node
) -> None:
    node.answer = lambda _: messages.NodeRefused("node.busy", "full", 7)
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error, answer.headers["Retry-After"]) == (503, "node.busy", "7")


def test_a_transaction_id_adds_no_folders_to_the_name_of_a_log(
    proxy: Proxy, swift: FakeSwift
) -> None:
    environ = {"swift.trans_id": "tx1-../../x"}
    answer = proxy.call("GET", "c/o", {**RUN, "X-Storlet-Generate-Log": "true"}, environ=environ)
    assert answer.headers["X-Storlet-Invocation"].startswith("tx1-.._.._x-")


def test_a_copy_of_a_range_names_it(proxy: Proxy) -> None:
    headers = {**RUN, "X-Storlet-Range": "bytes=1-3", "Destination": "c/copy"}
    answer = proxy.call("COPY", "c/o", headers)
    assert (answer.status, answer.headers["Storlet-Input-Range"]) == (201, "bytes 1-3/5")
