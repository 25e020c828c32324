"""Fetches of code at an object node, through Swift's internal client."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from swift.common.internal_client import InternalClient
from swift.common.swob import Response

from storlet_middleware.engine.storlet_version import CodeFile
from storlet_middleware.errors import BackendFailed, CodeReplaced, StorletError
from storlet_middleware.object_server import code_fetcher
from storlet_middleware.object_server.code_fetcher import CodeFetcher
from tests.unit.middleware.support import ACCOUNT, FakeSwift

PATH = f"/v1/{ACCOUNT}/storlet/up.py"


@pytest.fixture
def clients(swift: FakeSwift, monkeypatch: pytest.MonkeyPatch) -> list[InternalClient]:
    """The clients that are made; their pipeline is ``swift``."""
    made: list[InternalClient] = []
    # The attributes of a proxy server that a client reads.
    vars(swift)["_pipeline_final_app"] = SimpleNamespace(
        account_ring=None,
        auto_create_account_prefix=".",
        container_ring=None,
        get_object_ring=None,
    )

    def make(*args: Any) -> InternalClient:
        made.append(InternalClient(*args, app=swift))
        return made[-1]

    monkeypatch.setattr(code_fetcher, "InternalClient", make)
    return made


@pytest.fixture
def file(swift: FakeSwift) -> CodeFile:
    """The storlet of the fixture ``swift``, as it was resolved."""
    body = swift.containers["storlet"].objects["up.py"].body
    etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
    return CodeFile("storlet", "up.py", etag, "1", len(body), 0o444)


def test_the_client_is_made_at_the_first_use_and_kept(
    clients: list[InternalClient], file: CodeFile
) -> None:
    fetcher = CodeFetcher("/none")
    assert clients == []
    for _ in range(2):
        assert b"".join(fetcher.fetch(ACCOUNT, file)) == b"class Up: pass"
    assert len(clients) == 1


@pytest.mark.usefixtures("clients")
def test_exactly_one_version_is_fetched_from_the_newest_replica(
    swift: FakeSwift, file: CodeFile
) -> None:
    list(CodeFetcher("/none").fetch(ACCOUNT, file))
    (seen,) = swift.requests("GET")
    assert (seen.path, seen.headers["X-Newest"], seen.headers["If-Match"]) == (
        PATH,
        "true",
        file.etag,
    )


@pytest.mark.usefixtures("clients")
@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, CodeReplaced), (412, CodeReplaced), (403, BackendFailed), (503, BackendFailed)],
)
def test_code_that_cannot_be_read_is_an_error_and_leaves_no_body_open(
    swift: FakeSwift, file: CodeFile, status: int, kind: type[StorletError]
) -> None:
    swift.hooks["GET", PATH] = lambda request: Response(status=status, request=request)
    with pytest.raises(kind, match=f"code storlet/up.py cannot be read now: .* {status}") as caught:
        list(CodeFetcher("/none").fetch(ACCOUNT, file))
    assert caught.value.retry_after == 1
    assert swift.unclosed() == 0


@pytest.mark.usefixtures("clients")
def test_a_version_that_was_replaced_is_not_fetched(swift: FakeSwift, file: CodeFile) -> None:
    swift.put_storlet(body=b"class Up: other")
    with pytest.raises(CodeReplaced):
        list(CodeFetcher("/none").fetch(ACCOUNT, file))


@pytest.mark.usefixtures("clients")
@pytest.mark.parametrize("is_broken", [False, True])
def test_a_fetch_that_breaks_off_or_is_abandoned_closes_its_body(
    swift: FakeSwift, file: CodeFile, is_broken: bool
) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"class Up"
        raise OSError("lost")

    swift.containers["storlet"].objects["up.py"].chunks = chunks
    fetched: Any = CodeFetcher("/none").fetch(ACCOUNT, file)
    assert next(fetched) == b"class Up"
    if is_broken:
        with pytest.raises(BackendFailed, match="broke off"):
            next(fetched)
    else:
        fetched.close()
    assert swift.unclosed() == 0
