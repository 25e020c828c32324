"""``SelectObjectContent`` is a GET that runs the storlet; a cut result never has an End."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote

import pytest
from swift.common.swob import Request, Response

from storlet_middleware.errors import StorletError
from storlet_middleware.s3select import controller
from storlet_middleware.wsgi import s3_errors, s3_request
from tests.unit.middleware.s3select.support import BODY, Application, Closing, events, send

COUNTS = struct.pack(">QQ", 10, 20)
SCAN = BODY.replace(b"</Select", b"<ScanRange>%s</ScanRange></Select")
PROGRESS = BODY.replace(
    b"</Select", b"<RequestProgress><Enabled>TRUE</Enabled></RequestProgress></Select"
)


def frame(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">cI", kind, len(data)) + data


ROWS = frame(b"R", b"a,b\n")
END = frame(b"S", COUNTS)
FAULT = frame(b"E", json.dumps({"code": "CastFailed", "text": "why"}).encode())


def app_of(*chunks: bytes) -> Application:
    return Application(lambda _: Response(app_iter=Closing(chunks)))


def code(answer: Response) -> tuple[int, str]:
    return answer.status_int, answer.body.partition(b"<Code>")[2].partition(b"<")[0].decode()


def test_the_get_is_the_callers_with_the_query_as_a_parameter() -> None:
    app = app_of(ROWS, END)
    answer = send(app)
    assert answer.status_int == 200
    assert [kind for kind, _ in events(answer)] == ["Records", "Stats", "End"]
    (request,) = app.requests
    assert (request.method, request.path) == ("GET", "/v1/AUTH_test/bucket/key")
    assert request.headers["X-Run-Storlet"] == "std:s3-select"
    name, _, value = unquote(request.headers["X-Storlet-Parameter-1"]).partition(":")
    assert (name, json.loads(value)["expression"]) == ("request", "SELECT 1")
    assert "X-Storlet-Range" not in request.headers
    assert s3_request.is_select(request.environ)
    assert request.environ["wsgi.input"].read() == b""


def test_parquet_has_a_storlet_that_seeks_and_no_range_of_the_get() -> None:
    app = app_of(ROWS, END)
    body = SCAN % b"<Start>7</Start><End>9</End>"
    body = body.replace(b"<CSV/></Input", b"<Parquet/></Input")
    assert send(app, body).status_int == 200
    (request,) = app.requests
    assert request.headers["X-Run-Storlet"] == "std:s3-select-parquet"
    assert not {"Range", "X-Storlet-Range", "X-Storlet-Run-On-Proxy"} & set(request.headers)
    given = json.loads(unquote(request.headers["X-Storlet-Parameter-1"]).partition(":")[2])
    assert (given["input"], given["start"], given["end"]) == ({}, 7, 9)


def test_a_result_without_records_has_its_stats() -> None:
    assert [kind for kind, _ in events(send(app_of(END)))] == ["Stats", "End"]


def test_stats_are_those_of_the_run() -> None:
    found = dict(events(send(app_of(ROWS + ROWS, END))))
    for text in (b"<BytesScanned>10<", b"<BytesProcessed>20<", b"<BytesReturned>8<"):
        assert text in found["Stats"]


@pytest.mark.parametrize(("body", "kind"), [(BODY, "Cont"), (PROGRESS, "Progress")])
def test_progress_is_shown_on_request_and_keeps_alive_else(body: bytes, kind: str) -> None:
    found = [each for each, _ in events(send(app_of(frame(b"P", COUNTS), ROWS, END), body))]
    assert found[:2] == [kind, "Records"]
    assert found[-2:] == ["Stats", "End"]


def test_an_early_fault_is_a_status_and_a_late_one_a_message() -> None:
    assert code(send(app_of(FAULT))) == (400, "CastFailed")
    first, (late, _) = events(send(app_of(ROWS, FAULT)))
    assert (first, late) == (("Records", b"a,b\n"), "CastFailed")


@pytest.mark.parametrize(
    "chunks", [(ROWS,), (ROWS, END[:-1]), (ROWS, b"junk" * 9), (ROWS, END, b"x")]
)
def test_a_cut_result_is_an_error_message_and_no_end(chunks: tuple[bytes, ...]) -> None:
    kinds = [kind for kind, _ in events(send(app_of(*chunks)))]
    assert kinds == ["Records", "InternalError"]


def test_a_run_that_fails_late_is_an_error_message() -> None:
    def chunks() -> Iterator[bytes]:
        yield ROWS
        raise StorletError("the time is over", code="storlet.timeout.total")

    app = Application(lambda _: Response(app_iter=chunks()))
    assert [kind for kind, _ in events(send(app))] == ["Records", "StorletTimeoutTotal"]


def test_a_refusal_of_the_filter_is_the_answer() -> None:
    def refuse(request: Request) -> Response:
        error = StorletError("a rule denies it", code="access.rule")
        s3_errors.raise_for_s3(request.environ, error, {"X-Storlet-Error": error.code})
        raise AssertionError("raise_for_s3 raises")

    answer = send(Application(refuse))
    assert code(answer) == (403, "AccessDenied")
    assert answer.headers["X-Storlet-Error"] == "access.rule"


@pytest.mark.parametrize(
    ("status", "expected"), [(401, (403, "SignatureDoesNotMatch")), (403, (403, "AccessDenied")), (404, (404, "NoSuchKey"))]
)  # fmt: skip
def test_refusals_of_swift_are_those_of_get_object(status: int, expected: tuple[int, str]) -> None:
    def refuse(request: Request) -> Response:
        return Response(status=status if request.path.endswith("/key") else 204)

    assert code(send(Application(refuse))) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "EmptyRequestBody"),
        (b"<a", "MalformedXML"),
        (b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>", "MalformedXML"),
        (b"<a/>", "MalformedXML"),
        (BODY.replace(b">SQL<", b">XPath<"), "InvalidExpressionType"),
        (b"x" * (600 << 10), "MalformedXML"),
        ("<a>é</a>".encode("latin-1"), "MalformedXML"),
    ],
)
def test_faults_of_the_document_read_nothing(body: bytes, expected: str) -> None:
    app = app_of(END)
    assert code(send(app, body)) == (400, expected)
    assert app.requests == []


TAGS = b"<a/>" * 8000
ATTRIBUTES = b"<a b='>' " + b" ".join(b"c%d=''" % number for number in range(4000)) + b"/>"


@pytest.mark.parametrize(
    "body",
    [
        b"<SelectRequest>" + TAGS + b"</SelectRequest>",
        BODY.replace(b"SELECT 1", TAGS),
        BODY.replace(b"SELECT 1", ATTRIBUTES),
        b"<SelectRequest><!--<Expression>-->" + ATTRIBUTES + b"</SelectRequest>",
        ("<?xml version='1.0' encoding='UTF-16'?>" + "<a/>" * 8000).encode("utf-16-le"),
    ],
)
def test_a_document_with_many_elements_is_refused_before_it_is_a_tree(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is not known yet, and the proxy server has one thread."""
    made: list[bytes] = []
    monkeypatch.setattr(controller, "fromstring", made.append)
    app = app_of(END)
    assert code(send(app, body)) == (400, "MalformedXML")
    assert (made, app.requests) == ([], [])


def test_no_encoding_of_the_document_hides_elements() -> None:
    hidden = b"<?xml version='1.0' encoding='UTF-7'?>" + BODY.replace(
        b"SELECT 1", b"SELECT '+ADw-a/+AD4-'"
    )
    app = app_of(END)
    assert send(app, hidden).status_int == 200
    assert "+ADw-a/+AD4-" in unquote(app.requests[0].headers["X-Storlet-Parameter-1"])


@pytest.mark.parametrize("form", [b"%s", b"<![CDATA[%s]]>"])
def test_a_long_expression_is_no_large_document(form: bytes) -> None:
    expression = form % (b"SELECT '" + b"x" * 200_000 + b"'")
    assert send(app_of(END), BODY.replace(b"SELECT 1", expression)).status_int == 200


@pytest.mark.parametrize(
    ("headers", "query", "expected"),
    [
        ({"X-Run-Storlet": "own.py"}, "", "InvalidRequestParameter"),
        ({"X-Storlet-Extra-Resources": "/c/o"}, "", "InvalidRequestParameter"),
        ({"Range": "bytes=0-1"}, "", "UnsupportedRangeHeader"),
        ({}, "&versionId=1", "InvalidRequestParameter"),
    ],
)
def test_a_header_that_could_change_the_get_is_refused(
    headers: dict[str, str], query: str, expected: str
) -> None:
    app = app_of(END)
    answer = send(app, query=f"select=&select-type=2{query}", headers=headers)
    assert code(answer) == (400, expected)
    assert app.requests == []


def test_a_signature_of_version_2_is_refused() -> None:
    """Swift's covers neither ``select`` nor its type, and boto3's covers both."""
    app = app_of(END)
    date = formatdate(time.time(), usegmt=True)
    answer = send(app, headers={"Date": date, "Authorization": "AWS test:tester:x"})
    assert code(answer) == (403, "AccessDenied")
    assert app.requests == []


def test_a_wrong_md5_of_the_document_is_refused() -> None:
    app = app_of(END)
    assert code(send(app, headers={"Content-MD5": "A" * 22 + "=="}))[0] == 400
    assert app.requests == []


@pytest.mark.parametrize(
    ("given", "sent", "start"),
    [
        (b"<Start>5</Start><End>9</End>", "bytes=4-", 5),
        (b"<Start>0</Start><End>9</End>", None, 0),
        (b"<End>30</End>", "bytes=69-", 70),
        (b"<End>300</End>", None, 0),
    ],
)
def test_a_scan_range_reads_from_one_byte_before_it(
    given: bytes, sent: str | None, start: int
) -> None:
    def answer(request: Request) -> Response:
        if request.method == "HEAD":
            return Response(headers={"Content-Length": "100", "ETag": '"e"'})
        return Response(app_iter=[END])

    app = Application(answer)
    assert send(app, SCAN % given).status_int == 200
    request = next(each for each in app.requests if each.method == "GET")
    assert request.headers.get("X-Storlet-Range") == sent
    value = unquote(request.headers["X-Storlet-Parameter-1"]).partition(":")[2]
    assert json.loads(value)["start"] == start
    assert request.headers.get("If-Match") == (None if b"<Start>" in given else '"e"')


def test_the_end_of_an_object_is_not_that_of_another_one() -> None:
    """Also if a replica that answers the GET has another version than the one of the HEAD."""

    def answer(request: Request) -> Response:
        if request.method == "HEAD":
            return Response(headers={"Content-Length": "100", "ETag": "old"})
        return Response(status=200 if request.headers.get("If-Match") != '"old"' else 412)

    app = Application(answer)
    assert code(send(app, SCAN % b"<End>30</End>")) == (500, "InternalError")
    assert [request.method for request in app.requests] == ["HEAD", "GET"]


@pytest.mark.parametrize(
    "headers", [{}, {"X-Storlet-Rule": "hide", "Content-Length": "100"}], ids=["none", "rule"]
)
@pytest.mark.parametrize(
    ("refusal", "expected"), [(403, (403, "AccessDenied")), (0, (400, "UnsupportedScanRangeInput"))]
)
def test_a_range_at_the_end_of_data_of_unknown_length_is_refused(
    headers: dict[str, str], refusal: int, expected: tuple[int, str]
) -> None:
    """The length of a covered object is not that of the output of its rule."""
    body = Closing([END])

    def answer(request: Request) -> Response:
        if request.method == "HEAD":
            return Response(headers=headers, app_iter=iter(()))
        return Response(status=refusal) if refusal else Response(app_iter=body)

    app = Application(answer)
    assert code(send(app, SCAN % b"<End>30</End>")) == expected
    assert body.is_closed is not bool(refusal)
    value = unquote(app.requests[1].headers["X-Storlet-Parameter-1"]).partition(":")[2]
    assert (json.loads(value)["start"], json.loads(value)["end"]) == (0, 0)


def test_the_run_is_closed_with_the_stream() -> None:
    body = Closing([ROWS, ROWS])
    answer = send(Application(lambda _: Response(app_iter=body)))
    iterator: Any = iter(answer.app_iter)
    next(iterator)
    assert not body.is_closed
    answer.app_iter.close()
    assert body.is_closed
