"""``GET /v1/ACCOUNT?storlet-runs``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import HTTPForbidden

from tests.unit.middleware.records.made import NOON, record, store_of, write
from tests.unit.middleware.support import ACCOUNT, FakeSwift, Proxy, authorize

OWN = record(2, NOON + 1, caller="test:bob", code="storlet.failed", message="quotes data")


@pytest.fixture(autouse=True)
def written(swift: FakeSwift, short_dir: Path) -> None:
    write(store_of(swift, short_dir), record(1, NOON), OWN)


def with_rights(request: Any) -> Any:
    """Allow bob what X-Account-Access-Control may allow: a GET of the account."""
    is_get = request.environ["PATH_INFO"] == f"/v1/{ACCOUNT}" and request.method == "GET"
    return None if is_get and request.remote_user == "test:bob" else authorize(request)


def get(proxy: Proxy, query: str, **more: Any) -> Any:
    return proxy.call("GET", f"/v1/{ACCOUNT}?{query}", more.pop("headers", None), **more)


def test_the_owner_gets_all_records_as_json(proxy: Proxy) -> None:
    answer = get(proxy, "storlet-runs")
    assert (answer.status, answer.headers["Content-Type"]) == (
        200, "application/json; charset=utf-8",
    )  # fmt: skip
    assert [found["id"] for found in json.loads(answer.data)] == [OWN.id, record(1).id]
    assert json.loads(answer.data)[0]["message"] == "quotes data"
    assert "X-Storlet-Runs-Next" not in answer.headers


def test_records_come_as_lines_and_in_pages(proxy: Proxy) -> None:
    answer = get(proxy, "storlet-runs=jsonl&limit=1")
    assert answer.headers["Content-Type"] == "application/jsonl; charset=utf-8"
    (line,) = answer.data.splitlines()
    assert json.loads(line)["id"] == OWN.id
    more = get(proxy, f"storlet-runs=jsonl&marker={answer.headers['X-Storlet-Runs-Next']}")
    assert json.loads(more.data)["id"] == record(1).id


def test_one_record_is_an_object(proxy: Proxy) -> None:
    answer = get(proxy, f"storlet-runs&id={OWN.id}")
    assert json.loads(answer.data) == OWN.mapping()
    missing = get(proxy, "storlet-runs&id=tx-none-1")
    assert (missing.status, missing.error) == (404, "run.not_found")


def test_a_caller_with_rights_on_the_account_gets_own_runs(proxy: Proxy) -> None:
    environ = {"swift.authorize": with_rights}
    answer = get(proxy, "storlet-runs", user="test:bob", environ=environ)
    (found,) = json.loads(answer.data)
    assert (found["id"], "message" in found) == (OWN.id, False)
    other = get(proxy, f"storlet-runs&id={record(1).id}", user="test:bob", environ=environ)
    assert (other.status, other.error) == (404, "run.not_found")


@pytest.mark.parametrize(("user", "status"), [("test:bob", 403), ("", 401)])
def test_others_get_swifts_refusal(proxy: Proxy, user: str, status: int) -> None:
    assert get(proxy, "storlet-runs", user=user).status == status


def test_a_mark_of_an_owner_in_the_environment_is_not_trusted(proxy: Proxy) -> None:
    environ = {"swift.authorize": with_rights, "swift_owner": True}
    answer = get(proxy, "storlet-runs", user="test:bob", environ=environ)
    assert len(json.loads(answer.data)) == 1


def test_a_signed_request_gets_no_records(proxy: Proxy) -> None:
    answer = get(proxy, "storlet-runs", user=".wsgi.tempurl")
    assert (answer.status, answer.error) == (401, "access.denied")


def test_faults_are_refused_before_anything_is_read(proxy: Proxy, swift: FakeSwift) -> None:
    answer = get(proxy, "storlet-runs&limits=1&since=x")
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"did you mean limit?" in answer.data
    assert swift.requests("GET") == []


def test_listing_formats_leaves_the_answer_alone(proxy: Proxy) -> None:
    environ: dict[str, Any] = {}
    seen: dict[str, Any] = {"swift.format_listing": True}
    get(proxy, "storlet-runs&format=json", environ=seen | environ)
    answer = get(proxy, "storlet-runs&format=json", environ=seen)
    assert answer.status == 200


def test_other_requests_of_accounts_are_swifts(proxy: Proxy, swift: FakeSwift) -> None:
    for method, path in (("HEAD", "?storlet-runs"), ("GET", "?prefix=storlet-runs"), ("GET", "")):
        assert proxy.call(method, f"/v1/{ACCOUNT}{path}").status == 204
    refused = proxy.call("GET", f"/v1/{ACCOUNT}?storlet-runs", environ={
        "swift.authorize": lambda request: HTTPForbidden(request=request)
    })  # fmt: skip
    assert refused.status == 403
