"""The reports of a worker."""

from __future__ import annotations

import pytest

from storlet_daemon.protocol import messages
from tests.unit.daemon.protocol.messages.parsing import (
    Example,
    assert_complete,
    assert_round_trip,
    faults_of,
)

EXAMPLES: list[Example] = [
    (messages.Ready(), messages.WORKER_REPORTS, 0),
    (messages.LoadFailed("why", "where"), messages.WORKER_REPORTS, 0),
    (messages.Begin(), messages.WORKER_REPORTS, 1),
    (messages.End(recycle=True, failed=True), messages.WORKER_REPORTS, 0),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example[0].TYPE)
def test_an_encoded_message_is_parsed_back(example: Example) -> None:
    assert_round_trip(example)


def test_every_message_has_an_example() -> None:
    assert_complete(EXAMPLES, messages.WORKER_REPORTS)


def test_begin_comes_with_the_connection() -> None:
    fields = messages.Begin().fields()
    for count in (0, 2):
        (fault,) = faults_of(fields, messages.WORKER_REPORTS, count)
        assert fault == f"begin came with {count} descriptors, it needs 1"


def test_the_flags_of_end_are_booleans_and_false_by_default() -> None:
    end = messages.parse({"type": "end"}, messages.WORKER_REPORTS)
    assert (end.recycle, end.failed) == (False, False)
    fields = {"type": "end", "recycle": 1, "failed": "no"}
    assert faults_of(fields, messages.WORKER_REPORTS, 0) == [
        "recycle is neither true nor false",
        "failed is neither true nor false",
    ]


def test_a_worker_cannot_report_events_of_an_invocation() -> None:
    done = messages.Done(messages.OK).fields()
    assert "not expected here" in faults_of(done, messages.WORKER_REPORTS, 0)[0]
