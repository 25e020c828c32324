"""The filter is Swift's ``s3api`` with one operation more."""

from __future__ import annotations

import pytest
from swift.common import registry
from swift.common.middleware.s3api import s3api
from swift.common.swob import Request, Response

from storlet_middleware.s3select.filter import filter_factory
from tests.unit.middleware.s3select.support import Application, send


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("", "/bucket/key"),
        ("select=&select-type=1", "/bucket/key"),
        ("select=", "/bucket/key"),
        ("select=&select-type=2", "/bucket"),
        ("restore=&select=&select-type=2", "/bucket/key"),
        ("uploads=", "/bucket/key"),
        ("acl=", "/bucket"),
    ],
)
def test_other_requests_have_the_answers_of_swift(query: str, path: str) -> None:
    answers = []
    for factory in (filter_factory, s3api.filter_factory):
        app = Application(lambda _: Response(status=404))
        request = send(app, query=query, path=path, factory=factory)
        sent = [(each.method, each.path) for each in app.requests]
        answers.append((request.status, request.body, sent))
    assert answers[0] == answers[1]


def test_requests_of_swifts_own_api_pass() -> None:
    app = Application(lambda _: Response(body=b"plain"))
    request = Request.blank("/v1/AUTH_test/c/o?select&select-type=2", method="POST")
    assert request.get_response(filter_factory({})(app)).body == b"plain"


def test_info_names_the_operation() -> None:
    filter_factory({}, max_bucket_listing="7")
    shown = registry.get_swift_info()["s3api"]
    assert (shown["select_object_content"], shown["max_bucket_listing"]) == (True, 7)
