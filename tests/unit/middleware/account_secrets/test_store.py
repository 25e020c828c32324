"""Secrets as objects that no client can reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from swift.common.swob import Response

from storlet_middleware.account_secrets import store as module
from storlet_middleware.account_secrets.sealing import Sealing
from storlet_middleware.account_secrets.store import SecretStore
from storlet_middleware.errors import StorletError
from storlet_middleware.wsgi.swift_paths import SwiftPath
from tests.unit.middleware.support import ACCOUNT, FakeSwift

CONTAINER = "\0storlet-secrets"
PATH = f"/v1/{ACCOUNT}/{CONTAINER}/\0api-token"
PLACE = SwiftPath("v1", ACCOUNT)
VALUE = b"the value of a secret"


@pytest.fixture
def environ() -> dict[str, Any]:
    return {"REQUEST_METHOD": "POST", "PATH_INFO": f"/v1/{ACCOUNT}", "QUERY_STRING": "x=y"}


@pytest.fixture
def store(swift: FakeSwift) -> SecretStore:
    return SecretStore(swift, Sealing([b"k" * 32]))


def test_a_secret_is_set_replaced_read_and_deleted(
    store: SecretStore, swift: FakeSwift, environ: dict[str, Any]
) -> None:
    assert store.value(environ, PLACE, "api-token") is None
    assert store.set(environ, PLACE, "api-token", VALUE)
    assert not store.set(environ, PLACE, "api-token", VALUE * 2)
    assert store.value(environ, PLACE, "api-token") == VALUE * 2
    assert list(store.names(environ, PLACE)) == ["api-token"]
    assert store.delete(environ, PLACE, "api-token")
    assert not store.delete(environ, PLACE, "api-token")
    assert store.names(environ, PLACE) == {}
    assert swift.unclosed() == 0


def test_the_stored_object_has_a_reserved_name_and_no_value(
    store: SecretStore, swift: FakeSwift, environ: dict[str, Any]
) -> None:
    store.set(environ, PLACE, "api-token", VALUE)
    store.value(environ, PLACE, "api-token")
    store.names(environ, PLACE)
    (stored,) = swift.containers[CONTAINER].objects.values()
    assert VALUE not in stored.body
    assert list(swift.containers[CONTAINER].objects) == ["\0api-token"]
    own = [seen for seen in swift.seen if CONTAINER in seen.path]
    assert all(seen.headers["X-Backend-Allow-Reserved-Names"] == "true" for seen in own)
    assert not any(VALUE.decode() in str(seen) for seen in swift.seen)
    reads = [seen for seen in own if seen.path == PATH and seen.method in ("GET", "HEAD")]
    assert all(seen.headers["X-Newest"] == "true" for seen in reads)


def test_the_keymaster_of_the_pipeline_has_the_key(
    swift: FakeSwift, environ: dict[str, Any]
) -> None:
    asked: list[str] = []

    def pipeline(asking: dict[str, Any], start_response: Any) -> Any:
        def fetch(key_id: Any = None) -> dict[str, Any]:
            asked.append(asking["PATH_INFO"])
            return {"id": {"path": asking["PATH_INFO"]}, "object": b"o" * 32}

        asking["swift.callback.fetch_crypto_keys"] = fetch
        return swift(asking, start_response)

    store = SecretStore(pipeline, Sealing([]))
    store.set(environ, PLACE, "api-token", VALUE)
    assert store.value(environ, PLACE, "api-token") == VALUE
    assert asked == [PATH, PATH]


def test_an_account_has_a_maximum_of_secrets(
    store: SecretStore, environ: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    store.set(environ, PLACE, "a", VALUE)
    store.set(environ, PLACE, "b", VALUE)
    with pytest.raises(StorletError, match="has 2 secrets, which is the maximum"):
        store.set(environ, PLACE, "c", VALUE)
    assert not store.set(environ, PLACE, "b", VALUE)


@pytest.mark.parametrize(
    ("method", "status", "code"),
    [("PUT", 413, "swift.refused"), ("PUT", 503, "backend.failed"), ("HEAD", 503, "backend.failed"),
     ("GET", 503, "backend.failed"), ("DELETE", 500, "backend.failed")],
)  # fmt: skip
def test_a_failure_of_swift_is_an_error(
    store: SecretStore, swift: FakeSwift, environ: dict[str, Any],
    method: str, status: int, code: str,
) -> None:  # fmt: skip
    store.set(environ, PLACE, "api-token", VALUE)
    swift.hooks[method, PATH] = lambda request: Response(status=status, request=request)
    operations: dict[str, Callable[[], object]] = {
        "GET": lambda: store.value(environ, PLACE, "api-token"),
        "DELETE": lambda: store.delete(environ, PLACE, "api-token"),
    }
    change = operations.get(method, lambda: store.set(environ, PLACE, "api-token", VALUE))
    with pytest.raises(StorletError) as caught:
        change()
    assert caught.value.code == code
    assert VALUE.decode() not in str(caught.value)
