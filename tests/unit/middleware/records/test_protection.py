"""The protection of the objects that hold records."""

from __future__ import annotations

from typing import Any

import pytest
from swift.common.swob import Request

from storlet_middleware.records.protection import Protection
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.support import ACCOUNT, OWNER, FakeSwift, Proxy, authorize

NAME = "storletlog/.runs/20261123T190000.000000Z-0123456789ab.jsonl"
PROTECTION = Protection("storletlog")


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("PUT", NAME, {}),
        ("PUT", "storletlog/.runs/anything", {}),
        ("PUT", "storletlog/.lines/anything", {}),
        ("PUT", NAME, {"X-Copy-From": "/c/o"}),
        ("POST", NAME, {}),
        ("COPY", "c/o", {"Destination": f"/{NAME}"}),
        ("PUT", NAME, {"X-Run-Storlet": "up.py"}),
    ],
)
def test_no_client_writes_a_record(
    proxy: Proxy, swift: FakeSwift, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = proxy.call(method, path, headers)
    assert (answer.status, answer.error) == (403, "access.denied")
    assert b"holds records of runs" in answer.data
    assert [seen for seen in swift.seen if seen.method in ("PUT", "POST", "COPY")] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "storletlog/a"), ("PUT", "c/.runs/a"), ("PUT", "storletlog/x.runs/a"),
        ("DELETE", NAME), ("GET", NAME), ("POST", "storletlog"), ("PUT", "storletlog"),
    ],
)  # fmt: skip
def test_other_requests_are_not_refused(method: str, path: str) -> None:
    operation = parse(Request.blank(f"/v1/{ACCOUNT}/{path}", method=method).environ)
    assert operation is not None
    PROTECTION.require_no_write(operation)


@pytest.mark.parametrize("path", [NAME, NAME.replace(".runs", ".lines")])
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
@pytest.mark.parametrize(("user", "status"), [(OWNER, {200, 204}), ("test:bob", {403})])
def test_only_owners_read_and_delete_records_with_any_acl(
    proxy: Proxy, swift: FakeSwift, path: str, method: str, user: str, status: set[int]
) -> None:
    container, _, name = path.partition("/")
    swift.put(container, name, b"{}")
    swift.put(container, "other", b"{}")
    swift.containers[container].read = swift.containers[container].write = "test:bob"
    assert proxy.call(method, path, user=user).status in status
    assert proxy.call(method, f"{container}/other", user=user).status in {200, 204}


def refusal(path: str, user: str, **environ: Any) -> Any:
    request = Request.blank(path, environ={"REMOTE_USER": user, **environ})
    request.acl = "test:bob"
    return PROTECTION.refusal(request, authorize)


def test_an_owner_of_another_account_is_none_here() -> None:
    """Swift marks the owner in the environment, which a sub-request may inherit."""
    path = f"/v1/{ACCOUNT}/{NAME}"
    assert refusal(path, "test:bob", swift_owner=True).status_int == 403
    assert refusal(path, OWNER) is None
    assert PROTECTION.refusal(Request.blank(path), None) is None


@pytest.mark.parametrize(
    "path",
    [f"/v1/{ACCOUNT}/c/.runs/x", f"/v1/{ACCOUNT}/storletlog/a.runs/x", "/v1/.runs/storletlog/o"],
)
def test_other_paths_are_not_for_owners_only(path: str) -> None:
    assert refusal(path, "test:bob") is None


def test_old_versions_of_records_are_protected() -> None:
    path = f"/v1/{ACCOUNT}/\0versions\0storletlog/\0.runs/x\x008204539600.00000"
    assert refusal(path, "test:bob").status_int == 403
