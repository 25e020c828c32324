"""Events of a worker: their order, their effect on the invocation, and waits for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware import errors
from storlet_middleware.engine import events as module
from storlet_middleware.engine.connection import Connection
from storlet_middleware.engine.events import Events
from storlet_middleware.engine.further_outputs import FurtherOutputs
from storlet_middleware.engine.inputs import Inputs
from storlet_middleware.engine.output import OutputCount
from storlet_middleware.engine.output_stream import OutputStream, ReadPace
from storlet_middleware.engine.progress import Progress
from storlet_middleware.engine.task import Deadlines
from storlet_middleware.errors import SandboxUnavailable, StorletError, TenantBusy

STARTED = messages.Started()
METADATA = messages.Metadata({"lines": "3"})
DONE = messages.Done("ok", usage=messages.Usage(0.5, 4096))


class ScriptedConnection(Connection):
    """A connection whose events are given; its descriptor is readable while there are any."""

    def __init__(self, events: list[messages.Message]) -> None:
        super().__init__()
        self.events: list[messages.Message] = []
        self.is_finished = False
        self._reader, self._writer = os.pipe()
        for event in events:
            self.add(event)

    def add(self, event: messages.Message) -> None:
        self.events.append(event)
        os.write(self._writer, b"0")

    def fileno(self) -> int:
        return self._reader

    def receive(self) -> messages.Message:
        if not self.events:
            raise BlockingIOError
        os.read(self._reader, 1)
        return self.events.pop(0)

    def finish(self) -> None:
        self.is_finished = True

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class Case:
    """:class:`Events` over given events, with an output pipe of ten bytes."""

    def __init__(
        self, *events: messages.Message, queue: float = 60.0, sinks: Sequence[Any] = ()
    ) -> None:
        self.connection = ScriptedConnection(list(events))
        self.sinks = sinks
        self.released: list[None] = []
        self.output = OutputStream()
        self.output.fd, self._writer = os.pipe()
        os.write(self._writer, b"0123456789")
        inputs = Inputs([], lambda: None)
        progress = Progress(Deadlines(queue, 60.0, 60.0, 60.0), inputs)
        count = OutputCount(progress, inputs.failure)
        self.events = Events(
            self.connection,
            inputs,
            progress,
            self.output,
            count,
            lambda: self.released.append(None),
        )
        if sinks:
            self.events.further = FurtherOutputs(sinks, count, inputs.failure, ReadPace())
        self.events.max_metadata_bytes = 4096

    def take_all(self) -> None:
        while self.connection.events:
            assert self.events.take(None)

    def close(self) -> None:
        self.connection.close()
        self.output.close()
        os.close(self._writer)


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    made = Case(*request.param)
    yield made
    made.close()


@pytest.mark.parametrize("case", [(STARTED, METADATA, DONE)], indirect=True)
def test_a_success_gives_metadata_usage_and_the_end_of_the_output(case: Case) -> None:
    case.take_all()
    assert case.events.metadata == {"lines": "3"}
    assert case.events.usage == {"cpu_seconds": 0.5, "peak_memory_bytes": 4096}
    assert (case.output.has_end, case.connection.is_finished) == (True, True)
    assert case.released == [None]


@pytest.mark.parametrize(
    "case",
    [(STARTED, STARTED), (STARTED, METADATA, METADATA), (STARTED, METADATA, DONE, DONE)],
    indirect=True,
)
def test_an_event_out_of_order_is_a_failure_of_the_storlet(case: Case) -> None:
    with pytest.raises(StorletError, match="out of order") as caught:
        case.take_all()
    assert caught.value.code == errors.STORLET_FAILED


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ((STARTED, messages.Done("error", "storlet.load", "no class")), errors.STORLET_LOAD),
        ((STARTED, messages.Done("error", "node.busy", "full")), errors.STORLET_FAILED),
        ((STARTED, DONE), errors.STORLET_FAILED),
    ],
    indirect=["case"],
)
def test_a_failure_has_a_code_of_the_storlet_only(case: Case, code: str) -> None:
    with pytest.raises(StorletError) as caught:
        case.take_all()
    assert caught.value.code == code
    assert case.released == [None]


@pytest.mark.parametrize("case", [()], indirect=True)
def test_a_wait_ends_at_the_given_time(case: Case) -> None:
    assert not case.events.take(0.0)


def test_an_event_that_came_after_a_vain_look_is_taken_without_a_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wait may find that a deadline passed, although the event is there."""
    case = Case()
    assert not case.events.take(time.monotonic() + 0.01)
    case.connection.add(STARTED)
    monkeypatch.setattr(module, "wait_readable", None)
    assert case.events.take(None)
    case.close()


def test_a_wait_raises_at_the_deadline() -> None:
    case = Case(queue=0.01)
    with pytest.raises(TenantBusy):
        case.events.take(None)
    case.close()


def test_time_without_a_reader_is_no_time_of_the_storlet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline passed before the wait began: this process was stopped, or its reader was."""
    monkeypatch.setattr(module, "_LATE_SECONDS", 0.5)
    case = Case(queue=0.2)
    time.sleep(1.0)
    began = time.monotonic()
    with pytest.raises(TenantBusy):
        case.events.take(None)
    assert time.monotonic() - began >= 0.2
    case.close()


def test_a_stall_of_the_node_is_not_blamed_on_the_storlet() -> None:
    case = Case(queue=0.01)
    case.events.node_fault = lambda: "frozen"
    with pytest.raises(SandboxUnavailable, match="the node stalled: frozen") as caught:
        case.events.take(None)
    assert caught.value.code == "sandbox.unavailable"
    case.close()


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.metadata: list[dict[str, str]] = []

    def begin(self, metadata: Mapping[str, str]) -> None:
        self.metadata.append(dict(metadata))

    def write(self, chunk: bytes) -> None:
        raise AssertionError("no output was opened")


@pytest.fixture
def make_case() -> Iterator[Callable[..., Case]]:
    made: list[Case] = []

    def make(*events: messages.Message, sinks: int) -> Case:
        made.append(Case(*events, sinks=[Kept() for _ in range(sinks)]))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_each_output_has_metadata_of_its_own(make_case: Callable[..., Case]) -> None:
    case = make_case(STARTED, messages.Metadata({"a": "1"}, 2), messages.Metadata({}, 1), sinks=2)
    case.take_all()
    assert [sink.metadata for sink in case.sinks] == [[{}], [{"a": "1"}]]
    assert not case.events.has_metadata


@pytest.mark.parametrize(
    ("events", "sinks"),
    [
        ([messages.Metadata({}, 1)], 0),
        ([messages.Metadata({}, 2)], 1),
        ([messages.Metadata({}, 1), messages.Metadata({}, 1)], 1),
        ([METADATA, messages.Metadata({}, 0)], 1),
    ],
)
def test_metadata_of_another_output_is_out_of_order(
    make_case: Callable[..., Case], events: list[messages.Message], sinks: int
) -> None:
    case = make_case(STARTED, *events, sinks=sinks)
    with pytest.raises(StorletError, match="out of order: metadata"):
        case.take_all()


def test_a_success_without_the_metadata_of_an_output_is_a_failure(
    make_case: Callable[..., Case],
) -> None:
    case = make_case(STARTED, METADATA, messages.Metadata({}, 2), DONE, sinks=2)
    with pytest.raises(StorletError, match="no reason"):
        case.take_all()
