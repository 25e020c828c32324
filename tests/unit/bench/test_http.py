"""The benchmark's client parses responses in pieces of any size."""

from __future__ import annotations

import pytest

from tests.bench.http import Answer, BadAnswer, make_request

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"


def fed(data: bytes, step: int) -> tuple[Answer, bytes, list[bool]]:
    body = bytearray()
    answer = Answer(body.extend)
    said = [answer.feed(memoryview(data[at : at + step])) for at in range(0, len(data), step)]
    return answer, bytes(body), said


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("data", [PLAIN, CHUNKED])
def test_an_answer_is_complete_with_its_last_byte(data: bytes, step: int) -> None:
    answer, body, said = fed(data, step)
    assert (answer.status, body, answer.size) == (200, b"hello", 5)
    assert said == [False] * (len(said) - 1) + [True]


@pytest.mark.parametrize("step", [1, 1000])
def test_an_answer_without_a_body_ends_with_its_head(step: int) -> None:
    answer, body, said = fed(EMPTY, step)
    assert (answer.status, body, said[-1]) == (204, b"", True)


@pytest.mark.parametrize("step", [1, 1000])
def test_the_answer_to_a_head_request_has_no_body(step: int) -> None:
    head = PLAIN.removesuffix(b"hello")
    answer = Answer(is_of_head=True)
    said = [answer.feed(memoryview(head[at : at + step])) for at in range(0, len(head), step)]
    assert (answer.status, answer.size, said.index(True)) == (200, 0, len(said) - 1)


def test_bytes_after_the_end_are_not_taken_for_the_next_answer() -> None:
    with pytest.raises(BadAnswer, match="after the end"):
        fed(PLAIN + b"!", 1000)


def test_an_answer_that_ends_with_its_connection_is_refused() -> None:
    with pytest.raises(BadAnswer, match="without a length"):
        fed(b"HTTP/1.1 200 OK\r\n\r\nhello", 1000)


def test_a_failure_names_request_and_answer() -> None:
    answer = Answer()
    answer.feed(memoryview(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"))
    with pytest.raises(BadAnswer, match=r"GET /v1/a with x.py: HTTP/1.1 503"):
        answer.require_success(make_request("GET", "/v1/a", {"X-Run-Storlet": "x.py"}))


def test_a_request_has_the_length_of_its_body() -> None:
    request = make_request("PUT", "/v1/a", {"A": "b"}, b"12345")
    assert request.head == b"PUT /v1/a HTTP/1.1\r\nHost: bench\r\nA: b\r\nContent-Length: 5\r\n\r\n"
