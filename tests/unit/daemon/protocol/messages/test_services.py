"""Requests of a storlet to the store, and the replies."""

from __future__ import annotations

import pytest

from storlet_daemon.protocol import messages
from tests.unit.daemon.protocol.messages.parsing import (
    Example,
    assert_complete,
    assert_round_trip,
    faults_of,
)

FACTS = messages.Facts({"k": "v"}, 10, "e", "text/x", "Mon, 01 Jan 2024 00:00:00 GMT")
REQUESTS: list[Example] = [
    (messages.OpenObject(1, "/c/o", 0, 9, "e"), messages.SERVICE_REQUESTS, 0),
    (messages.StatObject(2, "/c/o"), messages.SERVICE_REQUESTS, 0),
    (messages.ListContainer(3, "c", "p", "/", "m", "n", True, 7), messages.SERVICE_REQUESTS, 0),
    (messages.SetMetadata(4, "/c/o", {"k": "v"}), messages.SERVICE_REQUESTS, 0),
    (messages.CopyObject(5, "/c/o", "/c/p"), messages.SERVICE_REQUESTS, 0),
    (messages.DeleteObject(6, "/c/o"), messages.SERVICE_REQUESTS, 0),
    (
        messages.CallStorlet(7, "a.py", "/c/o", {"k": "v"}, (messages.Span(1, 2),), "/c/p"),
        messages.SERVICE_REQUESTS,
        0,
    ),
    (messages.CreateObject(8, "/c/o", "text/x", {"k": "v"}, 60), messages.SERVICE_REQUESTS, 0),
    (messages.CloseFile(9, 8, 10), messages.SERVICE_REQUESTS, 0),
    (messages.DiscardFile(10, 8), messages.SERVICE_REQUESTS, 0),
]
REPLIES: list[Example] = [
    (messages.Opened(1, FACTS, True), messages.SERVICE_REPLIES, 1),
    (messages.Feeding(7), messages.SERVICE_REPLIES, 1),
    (messages.Created(8), messages.SERVICE_REPLIES, 1),
    (messages.Described(2, FACTS), messages.SERVICE_REPLIES, 0),
    (messages.Performed(4), messages.SERVICE_REPLIES, 0),
    (messages.StreamEnded(1, 10), messages.SERVICE_REPLIES, 0),
    (messages.ServiceFailed(1, "a.b", 404, "why", "a.py"), messages.SERVICE_REPLIES, 0),
]


@pytest.mark.parametrize("example", REQUESTS + REPLIES, ids=lambda example: example[0].TYPE)
def test_an_encoded_message_is_parsed_back(example: Example) -> None:
    assert_round_trip(example)


def test_every_message_has_an_example() -> None:
    assert_complete(REQUESTS, messages.SERVICE_REQUESTS)
    assert_complete(REPLIES, messages.SERVICE_REPLIES)


def test_each_request_needs_a_service_that_a_storlet_can_declare() -> None:
    used = {kind.SERVICE for kind in messages.SERVICE_REQUESTS.values()}  # type: ignore[attr-defined]
    assert used == set(messages.SERVICES)


@pytest.mark.parametrize("wrong", [None, -1, 1.5, "1", True])
def test_an_id_is_a_whole_number(wrong: object) -> None:
    fields = {"type": "stat", "path": "/c/o"} | ({} if wrong is None else {"id": wrong})
    (fault,) = faults_of(fields, messages.SERVICE_REQUESTS)
    assert fault.startswith("id ")


@pytest.mark.parametrize("wrong", [7, [7], [{"start": -1}], [{"end": "1"}], {"start": 0}])
def test_the_ranges_of_a_call_are_pairs_of_whole_numbers(wrong: object) -> None:
    fields = {"type": "call", "id": 1, "storlet": "a.py", "path": "/c/o", "ranges": wrong}
    (fault,) = faults_of(fields, messages.SERVICE_REQUESTS)
    assert fault.startswith("ranges")


def test_requests_come_without_descriptors_and_a_stream_with_one() -> None:
    stat = messages.StatObject(1, "/c/o").fields()
    assert faults_of(stat, messages.SERVICE_REQUESTS, 1) == [
        "stat came with 1 descriptors, it needs 0"
    ]
    opened = messages.Opened(1).fields()
    assert faults_of(opened, messages.SERVICE_REPLIES, 0) == [
        "opened came with 0 descriptors, it needs 1"
    ]
