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


PROXY = """<!DOCTYPE html>
<html><head><title>502 Bad Gateway</title><style>h1 { color: red }</style></head>
<body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center><!-- padding --></body>
</html>
"""


def test_a_page_of_a_proxy_becomes_one_line() -> None:
    assert Refused("GET c/o", 502, {}, PROXY).message == "502 Bad Gateway: nginx"
    assert len(Refused("GET c/o", 502, {}, f"<html>{'word ' * 1000}</html>").message) <= 200


def test_an_answer_elsewhere_has_the_place() -> None:
    error = Refused("GET c/o", 301, {"location": "https://h/v1"}, "")
    assert error.message == "the server is now at https://h/v1: correct the URL"


def test_an_answer_without_text_has_the_reason_of_its_status() -> None:
    assert Refused("HEAD c", 403, {}, "").message == "access denied"


def test_a_date_is_no_number_of_seconds() -> None:
    headers = {"retry-after": "Mon, 23 Nov 2026 20:00:00 GMT"}
    assert Refused("GET c", 503, headers, "").retry_after is None
