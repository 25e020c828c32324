"""Errors from answers."""

from __future__ import annotations

from storlet_client import Refused


def test_an_error_has_code_reason_and_pause() -> None:
    headers = {"x-storlet-error": "node.busy", "retry-after": "3", "x-storlet-invocation": "tx1-1"}
    error = Refused("GET c/o", 503, headers, "full\n")
    assert (error.code, error.message, error.retry_after) == ("node.busy", "full", 3)
    assert error.invocation == "tx1-1"
    assert str(error) == "GET c/o: 503 node.busy: full"


def test_html_becomes_text() -> None:
    body = "<html><h1>Not Found</h1><p>It is &lt;gone&gt;.</p></html>"
    assert Refused("GET c/o", 404, {}, body).message == "Not Found: It is <gone>."


def test_an_answer_without_text_has_the_reason_of_its_status() -> None:
    assert Refused("HEAD c", 403, {}, "").message == "access denied"


def test_a_date_is_no_number_of_seconds() -> None:
    headers = {"retry-after": "Mon, 23 Nov 2026 20:00:00 GMT"}
    assert Refused("GET c", 503, headers, "").retry_after is None
