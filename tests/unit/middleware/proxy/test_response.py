"""The answer to a GET: headers, length, and a body that breaks with its storlet."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from storlet_middleware.errors import StorletError
from storlet_middleware.wsgi.storlet_request import ON_DATA
from tests.unit.middleware.storlets import failing
from tests.unit.middleware.support import (
    ACCOUNT,
    OWNER,
    RUN,
    BrokenInput,
    FakeSwift,
    Proxy,
    WorkerRun,
    assert_idle,
    wait_until,
)

pytestmark = pytest.mark.usefixtures("nothing_is_left_open")


Make = Callable[..., Proxy]


def test_a_derived_answer_carries_nothing_that_describes_the_source(
    proxy: Proxy, swift: FakeSwift
) -> None:
    swift.put("c", "o", b"hello", X_Object_Meta_Color="red", X_Static_Large_Object="True", X_Object_Manifest="c/x",
              Content_Md5="abc", X_Object_Sysmeta_X="1", X_Object_Meta_Storlet_Main="x")  # fmt: skip
    answer = proxy.call("GET", "c/o", RUN)
    assert answer.data == b"HELLO"
    assert set(answer.headers) - {"X-Storlet-Usage", "Content-Length"} == {
        "Content-Type", "X-Object-Meta-Color", "X-Storlet-Invocation", "X-Storlet-Ran-On", "Server-Timing",
    }  # fmt: skip
    assert answer.headers["Content-Type"] == "text/plain"


@pytest.mark.parametrize("log", ["true", "false"])
def test_a_small_result_that_ends_soon_has_a_length(make_proxy: Make, log: str) -> None:
    """Not with a log, which is there when the answer has ended."""
    answer = make_proxy().call("GET", "c/o", {**RUN, "X-Storlet-Generate-Log": log})
    assert (answer.data, answer.headers.get("Content-Length")) == (
        b"HELLO",
        None if log == "true" else "5",
    )


def test_a_small_result_whose_storlet_fails_soon_is_an_error(make_proxy: Make) -> None:
    proxy = make_proxy(failing(b"first"))
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error, answer.broken) == (422, "storlet.failed", None)
    assert_idle(proxy)


def test_a_result_that_has_not_ended_has_no_length(make_proxy: Make) -> None:
    has_begun = threading.Event()

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"first")
        assert has_begun.wait(20)
        worker.write(b"second")
        worker.succeed()

    answer = make_proxy(script).start("GET", "c/o", RUN)
    assert "Content-Length" not in answer.headers
    has_begun.set()
    assert b"".join(answer.app_iter) == b"firstsecond"


def test_the_storlets_metadata_is_in_the_answer_and_wins(
    make_proxy: Make, swift: FakeSwift
) -> None:
    def script(worker: WorkerRun) -> None:
        assert worker.invoke.inputs[0].metadata == {"Color": "grün"}
        worker.begin(**{"content-type": "text/csv", "color": "blau ü"})
        worker.succeed()

    swift.put("c", "o", b"hello", X_Object_Meta_Color="grün".encode().decode("latin-1"))
    answer = make_proxy(script).call("GET", "c/o", RUN)
    assert answer.headers["Content-Type"] == "text/csv"
    assert answer.headers["X-Object-Meta-Color"] == "blau ü".encode().decode("latin-1")


def test_a_storlet_that_fails_after_output_breaks_the_body(make_proxy: Make) -> None:
    # More than the pipe holds: when the answer begins, the storlet has not failed yet.
    proxy = make_proxy(failing(b"x" * (1 << 20)))
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, set(answer.data)) == (200, set(b"x"))
    assert answer.broken is not None
    assert "X-Storlet-Usage" not in answer.headers
    assert "Content-Length" not in answer.headers
    assert_idle(proxy)
    assert "code=storlet.failed" in proxy.logger.text


def test_a_disconnect_cancels_the_storlet_and_releases_everything(
    make_proxy: Make, swift: FakeSwift
) -> None:
    cancelled: list[bool] = []

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"first")
        cancelled.append(worker.wait_for_cancel())

    proxy = make_proxy(script)
    answer = proxy.start("GET", "c/o", RUN)
    assert next(iter(answer.app_iter)) == b"first"
    answer.app_iter.close()
    assert wait_until(lambda: cancelled == [True])
    assert_idle(proxy)
    assert "code=client.gone" in proxy.logger.text


def test_an_answer_that_is_never_read_is_released(proxy: Proxy) -> None:
    answer = proxy.start("GET", "c/o", RUN)
    answer.app_iter.close()
    assert_idle(proxy)


def test_the_result_of_a_run_on_data_is_the_answer(proxy: Proxy, swift: FakeSwift) -> None:
    headers = {**RUN, "Transfer-Encoding": "chunked"}
    answer = proxy.call("PUT", f"/v1/{ACCOUNT}", headers, environ={ON_DATA: True}, body=b"hello")
    assert (answer.status, answer.data, answer.broken) == (200, b"HELLO", None)
    assert not [seen for seen in swift.seen if seen.method == "PUT"]
    assert_idle(proxy)


def test_a_run_on_data_that_is_cut_fails(proxy: Proxy) -> None:
    headers = {**RUN, "Transfer-Encoding": "chunked"}
    answer = proxy.call(
        "PUT", f"/v1/{ACCOUNT}", headers, environ={ON_DATA: True}, body=BrokenInput(b"hello")
    )
    assert answer.broken or (answer.status, answer.error) == (499, "input.incomplete")
    assert_idle(proxy)


@pytest.mark.parametrize("user", [OWNER, "test:guest"])
def test_a_late_failure_is_raised_as_the_caller_may_see_it(
    make_proxy: Make, swift: FakeSwift, user: str
) -> None:
    """A storlet that has called this one reads the body."""
    for container in ("c", "storlet"):
        swift.containers[container].read = "test:guest"

    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 1_000_000)
        worker.fail("ValueError: a text of the tenant")

    answer = make_proxy(script).call("GET", "c/o", {**RUN, "X-Storlet-Run-On-Proxy": ""}, user=user)
    assert isinstance(answer.broken, StorletError)
    assert answer.broken.code == "storlet.failed"
    assert ("of the tenant" in str(answer.broken)) == (user == OWNER)
