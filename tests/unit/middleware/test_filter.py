"""The filter: its entry point, the requests that it leaves to Swift, and its own failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import HTTPUnauthorized, Request

from storlet_middleware.config import ConfigError
from storlet_middleware.filter import filter_factory
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import ACCOUNT, RUN, FakeSwift, Proxy


def test_all_faults_of_paste_section_and_file_are_reported_at_start(tmp_path: Path) -> None:
    path = tmp_path / "storlet.conf"
    path.write_text("[limits]\nmemori_bytes = 1\npids = x\n")
    with pytest.raises(ConfigError) as caught:
        filter_factory({}, role="proxi", rol="x", storlet_conf_path=str(path))
    for part in (
        "unknown option rol; did you mean role?",
        "role = proxi",
        "did you mean memory_bytes?",
        "pids = x",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize("role", ["proxy", "object"])
def test_entry_point_creates_a_filter_for_each_role(tmp_path: Path, role: str) -> None:
    path = tmp_path / "storlet.conf"
    path.write_text("")

    def swift(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"x"]

    app = filter_factory({}, role=role, storlet_conf_path=str(path), log_name="x")(swift)
    assert Request.blank("/v1/a/c/o").get_response(app).body == b"x"


def test_a_request_without_a_storlet_reaches_swift_unchanged(
    proxy: Proxy, swift: FakeSwift
) -> None:
    assert proxy.call("GET", "c/o").data == b"hello"
    # The HEAD is of the account, which may have rules; with memcached, Swift caches it.
    assert [seen.method for seen in swift.seen] == ["HEAD", "GET"]


@pytest.mark.parametrize("method", ["GET", "PUT", "COPY"])
@pytest.mark.parametrize("path", ["c/%ff", "%ff/o"])
def test_a_path_that_is_not_utf8_is_refused_as_swift_does(
    proxy: Proxy, swift: FakeSwift, path: str, method: str
) -> None:
    assert proxy.call(method, path, {**RUN, "Destination": "c/x"}).status == 412
    assert swift.seen == []


@pytest.mark.parametrize(
    ("options", "room"), [({}, 512), ({"max_clients": "100"}, 50), ({"max_clients": "1"}, 1)]
)
def test_the_maximum_of_runs_is_half_of_the_servers_requests(
    swift: FakeSwift,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    room: int,
) -> None:
    monkeypatch.setattr("storlet_middleware.filter.get_logger", lambda *_, **__: Logger())
    (tmp_path / "storlet.conf").write_text("")
    for role in ("proxy", "object"):
        app: Any = filter_factory(
            options, role=role, storlet_conf_path=str(tmp_path / "storlet.conf")
        )(swift)
        launcher = app._proxy.launcher if role == "proxy" else app._launcher
        assert launcher._admission._counts._room == room


def test_a_defect_of_the_filter_is_500_without_details(proxy: Proxy, swift: FakeSwift) -> None:
    def boom(request: Any) -> Any:
        raise RuntimeError("inner secret")

    swift.hooks["HEAD", f"/v1/{ACCOUNT}/storlet/up.py"] = boom
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.error) == (500, "internal")
    assert b"secret" not in answer.data
    assert "inner secret" in proxy.logger.text


def test_headers_that_resemble_storlet_headers_are_ignored(proxy: Proxy) -> None:
    assert proxy.call("GET", "c/o", {"X-Http-X-Storlet-Range": "bytes=0-1"}).status == 200


def test_an_account_that_is_not_enabled_is_400(proxy: Proxy, swift: FakeSwift) -> None:
    swift.is_enabled = False
    answer = proxy.call("GET", "c/o", RUN)
    assert (answer.status, answer.data) == (
        400,
        (
            b"Account disabled for storlets: its owner enables it with POST and"
            b" X-Account-Meta-Storlet-Enabled: true\n"
        ),
    )


def test_a_wrong_s3_signature_is_not_an_account_without_storlets(
    proxy: Proxy, swift: FakeSwift
) -> None:
    swift.is_enabled = False
    denied = {
        "swift.authorize": lambda request: HTTPUnauthorized(request=request),
        "s3api.auth_details": {},
    }
    answer = proxy.call("GET", "c/o", RUN, environ=denied)
    assert answer.status == 401
    assert b"disabled" not in answer.data


def test_a_storlet_cannot_write_storlets(proxy: Proxy) -> None:
    for container in ("storlet", "dependency"):
        assert proxy.call("PUT", f"{container}/x.py", RUN, body=b"x").status == 400
