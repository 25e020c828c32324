"""An invocation with services: what the worker gets, and what a failure of them does."""

from __future__ import annotations

import socket
from collections.abc import Callable

import eventlet
import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.engine.output_stream import ReadPace
from storlet_middleware.engine.services import ServiceUsage
from storlet_middleware.errors import StorletError, Unprocessable
from tests.unit.middleware.engine.invocations import make, run
from tests.unit.middleware.support import WorkerRun, Workers, open_descriptors

USED = ServiceUsage(3, 1000, 20)


class Served:
    """Services of which the test decides everything."""

    operations = ("read",)
    usage = USED

    def __init__(self) -> None:
        self.events: list[str] = []
        self.is_active = False
        self.at_end: StorletError | None = None
        self.fail: Callable[[BaseException], None] = print

    def begin(
        self, fail: Callable[[BaseException], None], count: Callable[[int], None], pace: ReadPace
    ) -> int:
        self.fail, self.count = fail, count
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return theirs.detach()

    def were_active_since(self, moment: float) -> bool:
        return self.is_active

    def finish(self) -> None:
        self.events.append("finish")
        if self.at_end is not None:
            raise self.at_end

    def close(self) -> None:
        self.events.append("close")
        self.ours.close()


def test_the_worker_gets_its_end_of_the_socket_pair_and_the_operations(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        assert worker.invoke.services is not None
        assert worker.invoke.services.operations == ("read",)
        worker.begin()
        worker.succeed()

    workers.script = script
    invocation, served = make(), Served()
    assert invocation.service_usage is None
    invocation.adopt_services(served)
    run(invocation, workers)
    assert served.events == ["finish", "close"]
    assert invocation.service_usage == USED


def test_a_run_succeeds_only_if_its_services_do(workers: Workers) -> None:
    workers.script = lambda worker: (worker.begin(), worker.succeed())
    invocation, served = make(), Served()
    served.at_end = Unprocessable("not stored")
    invocation.adopt_services(served)
    with pytest.raises(StorletError, match="not stored"):
        run(invocation, workers)


def test_created_bytes_count_for_the_limit_of_output_only(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.begin()
        worker.write(b"x" * 60)
        worker.succeed()

    workers.script = script
    invocation, served = make(limits=(100, 4096, 65536)), Served()
    invocation.adopt_services(served)
    run(invocation, workers)
    served.count(40)
    assert invocation.bytes_out == 60
    with pytest.raises(StorletError) as caught:
        served.count(1)
    assert caught.value.code == "storlet.limit.output"


def test_a_fault_of_the_services_ends_the_run_with_its_error(workers: Workers) -> None:
    def script(worker: WorkerRun) -> None:
        worker.send(messages.Started())
        assert worker.wait_for_cancel()

    workers.script = script
    invocation, served = make(), Served()
    invocation.adopt_services(served)
    eventlet.spawn_after(0.1, lambda: served.fail(Unprocessable("garbage")))
    with pytest.raises(StorletError, match="garbage"):
        run(invocation, workers)


def test_a_storlet_that_waits_for_the_store_has_the_time_of_one_that_waits_for_input(
    workers: Workers,
) -> None:
    def script(worker: WorkerRun) -> None:
        worker.send(messages.Started())
        eventlet.sleep(0)
        worker.wait_for_cancel()

    workers.script = script
    for is_active, code in ((False, "storlet.timeout.first_byte"), (True, "storlet.timeout.total")):
        invocation, served = make(deadlines=(2, 0.2, 0.2, 0.8)), Served()
        served.is_active = is_active
        invocation.adopt_services(served)
        with pytest.raises(StorletError) as caught:
            run(invocation, workers)
        assert caught.value.code == code


def test_numbers_have_the_names_of_answers_and_logs() -> None:
    assert list(USED.fields()) == ["service-operations", "service-in", "service-out"]
    assert USED.plus(USED) == ServiceUsage(6, 2000, 40)


def test_services_that_cannot_be_closed_leave_nothing_else_open(workers: Workers) -> None:
    workers.script = lambda worker: (worker.begin(), worker.succeed())
    eventlet.sleep()  # opens the hub's own
    before = open_descriptors()
    invocation, served = make(log=True), Served()
    closed = served.close

    def close() -> None:
        closed()
        raise eventlet.Timeout

    served.close = close  # type: ignore[method-assign]
    invocation.adopt_services(served)
    with pytest.raises(eventlet.Timeout):
        run(invocation, workers)
    workers.settle()
    assert open_descriptors() == before
