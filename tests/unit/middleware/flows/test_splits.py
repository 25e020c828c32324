"""The splits of a distribution; ``test_distributed`` has their behaviour in a proxy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.concurrency import sleep
from storlet_middleware.errors import BackendFailed, StorletError, Unprocessable
from storlet_middleware.flows import splits
from storlet_middleware.flows.caller_requests import CallerRequests
from storlet_middleware.flows.distribution import LISTING, Distribution, Part
from storlet_middleware.flows.parts import Piece
from storlet_middleware.flows.splits import Outcome, Splits, headers_of
from storlet_middleware.flows.spool import Budget, Space, Spool
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.storlet_request import ObjectPath
from tests.unit.middleware.logger import Logger

PATH = ObjectPath("c", "o")
BROKEN = BackendFailed("the object node's answer broke off")


class Requests(CallerRequests):
    """Gives these answers, one after the other, and then successes."""

    def __init__(self, *answers: Answer) -> None:
        self._left = list(answers)
        self.sent = 0

    def send(self, *_request: Any, **_more: Any) -> Answer:
        self.sent += 1
        return self._left.pop(0) if self._left else ran("object", [b"whole"])


def ran(where: str, chunks: Iterable[bytes]) -> Answer:
    return Answer("200 OK", [("X-Storlet-Ran-On", where)], chunks)


def broken(where: str, error: BaseException = BROKEN) -> Answer:
    """The answer of a storlet whose output is not complete."""

    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise error

    return ran(where, chunks())


def refused(where: str, code: str = "sandbox.unavailable") -> Answer:
    """An answer of 503, before the first byte."""
    headers = [("X-Storlet-Error", code)]
    headers += [("X-Storlet-Ran-On", where)] if where else []
    return Answer("503 Service Unavailable", headers, [b"down"])


def outcome_of(
    requests: Requests, budget: Budget | None = None, *, has_effects: bool = False
) -> Outcome:
    part = Part("std:nop")
    given = Distribution((PATH,), part, reports_failures=True, has_effects=has_effects)
    running = Splits(requests, given, [Piece(PATH)], budget)
    try:
        [outcome] = running.outcomes(LISTING)
        return outcome
    finally:
        running.close()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "_PAUSES", (0.0,) * 5)


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget(1 << 20, Space(tmp_path, 1 << 20, Logger()), "AUTH_a")


def test_a_result_that_cannot_be_closed_leaves_no_other_open(budget: Budget) -> None:
    class Failing(Spool):
        def close(self) -> None:
            super().close()
            raise OSError(5, "Input/output error")

    running = Splits(Requests(), Distribution((PATH,), Part("std:nop")), [], budget)
    for number, kind in enumerate((Spool, Failing, Spool)):
        running._ready[number] = Outcome(PATH, spool=kind(budget))
        running._ready[number].spool.write(b"x")  # type: ignore[union-attr]
    with pytest.raises(OSError, match="Input/output"):
        running.close()
    assert budget.used_bytes == 0


@pytest.mark.parametrize("has_spool", [False, True])
@pytest.mark.parametrize("error", [BROKEN, OSError("lost")])
def test_another_replica_runs_a_split_whose_node_broke_off(
    budget: Budget, error: BaseException, *, has_spool: bool
) -> None:
    requests = Requests(broken("object", error), refused("object"))
    outcome = outcome_of(requests, budget if has_spool else None)
    assert (outcome.code, outcome.size, requests.sent) == ("ok", 5, 3)
    if outcome.spool is not None:
        assert b"".join(outcome.spool.chunks()) == b"whole"
        outcome.spool.close()
    assert budget.used_bytes == 0


def test_a_storlet_that_has_begun_runs_three_times_at_most() -> None:
    requests = Requests(*(broken("object") for _ in range(5)))
    outcome = outcome_of(requests)
    assert (outcome.code, outcome.status, requests.sent) == ("backend.failed", 503, 3)


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (broken("proxy"), "backend.failed"),
        (broken("object,proxy"), "backend.failed"),
        (broken("object", Unprocessable("no")), "storlet.failed"),
        (broken("object", StorletError("gone", code="client.gone")), "client.gone"),
        (refused("proxy"), "sandbox.unavailable"),
        (refused("proxy", "outputs.partial"), "outputs.partial"),
        (refused("object", "storlet.failed"), "storlet.failed"),
    ],
)
def test_a_split_that_may_have_changed_the_store_or_would_fail_again_is_not_repeated(
    first: Answer, code: str
) -> None:
    requests = Requests(first)
    assert (outcome_of(requests).code, requests.sent) == (code, 1)


@pytest.mark.parametrize(
    "first",
    [broken("object"), refused("", "backend.failed"), refused("object")],
    ids=["broken", "broken before its first byte", "begun"],
)
def test_a_storlet_that_can_act_outside_of_its_sandbox_is_not_repeated(first: Answer) -> None:
    requests = Requests(first)
    assert outcome_of(requests, has_effects=True).is_failure
    assert requests.sent == 1


@pytest.mark.parametrize("has_effects", [False, True])
def test_a_split_that_has_not_run_is_repeated_until_the_pauses_end(*, has_effects: bool) -> None:
    requests = Requests(*(refused("", "node.busy") for _ in range(9)))
    outcome = outcome_of(requests, has_effects=has_effects)
    assert (outcome.code, requests.sent) == ("node.busy", 6)


def test_a_text_of_swift_is_the_status_and_no_html() -> None:
    headers = [("Content-Type", "text/html; charset=UTF-8"), ("X-Storlet-Error", "input.not_found")]
    body = b"<html><h1>Not Found</h1><p>The resource could not be found.</p></html>"
    outcome = outcome_of(Requests(Answer("404 Not Found", headers, [body])))
    assert (outcome.code, outcome.message) == ("input.not_found", "404 Not Found")


class SlowRequests(Requests):
    """Each takes a while until its node has it, and then an hour; notes what happens."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []

    def send(self, *_request: Any, **_more: Any) -> Answer:
        self.sent += 1
        self.events.append("prepared")
        try:
            for _ in range(3):
                sleep(0)
            self.events.append("at the node")
            sleep(3600)
        finally:
            # Another task runs meanwhile, as when a connection is closed.
            sleep(0)
            self.events.append("ended")
        raise AssertionError("the hour is over")


def splits_of_sixteen(requests: Requests) -> Splits:
    pieces = [Piece(ObjectPath("c", str(number))) for number in range(16)]
    given = Distribution(tuple(piece.path for piece in pieces), Part("std:nop"), concurrency=16)
    return Splits(requests, given, pieces, None)


def test_the_first_nodes_work_while_requests_to_others_are_prepared() -> None:
    requests = SlowRequests()
    running = splits_of_sixteen(requests)
    try:
        while requests.events.count("at the node") < 16:
            sleep(0)
        before = requests.events.index("at the node")
        assert requests.events[:before].count("prepared") < 8
        assert requests.events.count("prepared") == 16
    finally:
        running.close()
    sleep(0)
    assert requests.events.count("ended") == 16


@pytest.mark.parametrize("begun", [0, 1, 5])
def test_no_split_begins_after_the_end(begun: int) -> None:
    requests = SlowRequests()
    running = splits_of_sixteen(requests)
    while requests.sent < begun:
        sleep(0)
    running.close()
    sent = requests.sent
    for _ in range(40):
        sleep(0)
    assert requests.sent == sent < 16
    assert requests.events.count("ended") == sent


def test_ten_thousand_objects_are_in_memory_a_window_at_a_time() -> None:
    paths = [ObjectPath("c", str(number)) for number in range(10_000)]
    given = Distribution(tuple(paths), Part("std:nop"), concurrency=16)
    requests = Requests()
    running = Splits(requests, given, list(map(Piece, paths)), None)
    try:
        for number, outcome in enumerate(running.outcomes(LISTING)):
            assert (outcome.path.name, outcome.size) == (str(number), 5)
            # Four results of each worker wait, and one is read.
            assert requests.sent - number <= 4 * 16 + 1
    finally:
        running.close()
    assert requests.sent == 10_000


def test_parameters_are_quoted() -> None:
    part = Part("std:grep", {"a:b": "c d\n", "ü": "%"}, {"memory": "64M"})
    assert headers_of(part) == {
        "X-Run-Storlet": "std:grep",
        "X-Storlet-Parameter-0": "a%3Ab:c%20d%0A",
        "X-Storlet-Parameter-1": "%C3%BC:%25",
        "X-Storlet-Limit-memory": "64M",
    }


def test_the_error_of_an_outcome_names_the_object() -> None:
    error = Outcome(ObjectPath("c", "a/b"), "storlet.failed", 422, "no").error
    assert (str(error), error.status) == ("/c/a/b: no", 422)
