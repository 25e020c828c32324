"""An object node: which requests it runs, and the headers of its answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from swift.common.swob import Request

from storlet_daemon.protocol import messages
from storlet_middleware.backend import framed_etag, frames
from storlet_middleware.backend.invocation_header import BackendInvocation
from storlet_middleware.catalog.library import library_of
from storlet_middleware.errors import StorletError
from storlet_middleware.proxy.execution.result import RemoteResult
from tests.unit.middleware.object_nodes import GULP, VERSION, Fixture
from tests.unit.middleware.support import make_config, open_descriptors


@pytest.mark.parametrize("has_later_post", [True, False])
def test_a_framed_answer_has_only_the_timestamps_that_swift_reads(
    at: Fixture, has_later_post: bool
) -> None:
    at.server.headers |= {
        "X-Backend-Timestamp": "2" if has_later_post else "1",
        "X-Backend-Data-Timestamp": "1",
        "X-Backend-Durable-Timestamp": "1",
    }
    backend = [name for name in at.start().headers if name.startswith("X-Backend")]
    data = ["X-Backend-Data-Timestamp"] if has_later_post else []
    assert sorted(backend) == [*data, "X-Backend-Storlet-Run", "X-Backend-Timestamp"]


def test_a_framed_answer_is_marked_and_has_an_etag_of_its_own(at: Fixture) -> None:
    at.server.headers |= {"Accept-Ranges": "bytes"}
    etags = set()
    for _ in range(2):
        answer = at.start()
        assert answer.headers["X-Backend-Storlet-Run"] == frames.VERSION
        assert answer.content_length == len(b"".join(answer.app_iter)) > 5
        assert "Accept-Ranges" not in answer.headers
        etags.add(answer.headers["Etag"])
    # Swift's proxy server resumes a broken body only if the ETag is the same.
    assert len(etags) == 2
    ((node, source),) = {framed_etag.read(etag) for etag in etags}
    assert (bool(node), source) == (True, "source")


@pytest.mark.parametrize(
    "header",
    [
        "X-Static-Large-Object",
        "X-Object-Manifest",
        "X-Object-Sysmeta-Symlink-Target",
        "X-Object-Sysmeta-Ec-Frag-Index",
        "X-Object-Sysmeta-Crypto-Body-Meta",
        "X-Object-Transient-Sysmeta-Crypto-Meta",
    ],
)
def test_an_object_that_is_not_plain_is_answered_unchanged(at: Fixture, header: str) -> None:
    at.server.headers[header] = "x"
    answer = at.start()
    assert "X-Backend-Storlet-Run" not in answer.headers
    assert answer.body == b"hello"
    assert at.node.workers.runs == []


@pytest.mark.parametrize("status", [304, 404, 412, 507])
def test_other_answers_of_the_object_server_are_unchanged(at: Fixture, status: int) -> None:
    at.server.status = status
    assert at.start().status_int == status


def test_a_node_that_the_proxy_avoids_refuses_what_it_would_run(at: Fixture) -> None:
    first = at.start()
    assert first.body
    name = framed_etag.read(first.headers["Etag"]).node
    before = open_descriptors()
    answer = at.start(headers={"X-Backend-Storlet-Avoid": f"other, {name}"})
    assert (answer.status_int, answer.headers["X-Backend-Storlet-Refusal"]) == (409, "unable")
    assert open_descriptors() <= before
    assert "X-Backend-Storlet-Run" in at.start(headers={"X-Backend-Storlet-Avoid": "other"}).headers
    at.server.headers["X-Static-Large-Object"] = "x"
    assert at.start(headers={"X-Backend-Storlet-Avoid": name}).body == b"hello"
    assert len(at.node.workers.runs) == 2


def test_a_failure_before_the_start_is_reported_by_the_node(at: Fixture) -> None:
    at.node.answer = lambda _: messages.NodeRefused("sandbox.unavailable", "Docker is down")
    with pytest.raises(StorletError, match="Docker is down"):
        at.read()
    assert "node cannot run a storlet id=tx-1 code=sandbox.unavailable" in at.logger.text
    assert "storlet.node.unable" in at.logger.stats


def test_a_silent_sandboxd_is_a_fault_for_all_accounts_and_a_refusal_is_not(at: Fixture) -> None:
    def failed() -> RemoteResult:
        result = RemoteResult(at.start())
        with pytest.raises(StorletError):
            result.first()
        result.close()
        return result

    at.node.answer = lambda _: messages.NodeRefused("sandbox.unavailable", "no image")
    assert not failed().is_of_whole_node
    at.node.answer = lambda _: None
    assert failed().is_of_whole_node


def test_a_node_with_another_version_of_the_library_answers_with_plain_data(
    at: Fixture, tmp_path: Path
) -> None:
    version = library_of(make_config(tmp_path)).member("std:nop").version_for("AUTH_test")
    assert "X-Backend-Storlet-Run" in at.start(storlet=version).headers
    other = replace(version, digest="0" * 64)
    answer = at.start(storlet=other)
    assert (answer.body, answer.headers["X-Backend-Storlet-Refusal"]) == (b"hello", "version")
    unknown = replace(version, name="std:unknown")
    assert at.start(storlet=unknown).body == b"hello"


def test_a_request_that_resumes_a_broken_body_is_refused(at: Fixture) -> None:
    answer = at.start(headers={"Range": "bytes=100-"})
    assert answer.status_int == 409
    assert at.node.workers.runs == []


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_conditions_on_the_etag_are_evaluated_by_swift(at: Fixture, header: str) -> None:
    answer = at.start(headers={header: '"x"'})
    assert "X-Backend-Storlet-Run" not in answer.headers
    answer.app_iter.close()


def test_a_broken_description_runs_nothing(at: Fixture) -> None:
    request = Request.blank("/sda/1/a/c/o", headers={"X-Backend-Storlet-Invocation": "3"})
    assert request.get_response(at.filter).body == b"hello"
    assert "description of an invocation is broken" in at.logger.text


def test_requests_without_a_description_are_unchanged(at: Fixture) -> None:
    assert Request.blank("/sda/1/a/c/o").get_response(at.filter).body == b"hello"


@pytest.mark.parametrize(
    ("own", "declared", "requested", "memory", "is_ok"),
    [
        ("1K", {}, {}, 512, True),
        ("4", {}, {}, 512, False),
        ("1K", {"Output": 4}, {}, 512, False),
        ("1K", {"Output": 4000}, {"Output": 4.0, "Memory": float(1 << 26)}, 64, False),
        ("5", {"Output": 4000, "Memory": 1 << 27}, {"Output": 4000.0, "Nonsense": 1.0}, 128, True),
        ("1K", {"Memory": 1 << 40}, {"Memory": float(1 << 41)}, 512, True),
    ],
)
def test_a_node_applies_its_own_maxima_to_the_limits_of_the_request(  # noqa: PLR0917
    at: Fixture,
    short_dir: Path,
    own: str,
    declared: dict[str, float],
    requested: dict[str, float],
    memory: int,
    is_ok: bool,
) -> None:
    at.configure(short_dir, limits__output_bytes=own)
    version = replace(VERSION, limits=declared)
    wanted = BackendInvocation("tx-1", version, {}, (), False, GULP, requested)
    request = Request.blank("/sda/1/AUTH_test/c/o", headers=wanted.to_headers() or {})
    result = RemoteResult(request.get_response(at.filter))
    code = ""
    try:
        result.first()
        assert b"".join(result.chunks()) == b"HELLO"
    except StorletError as error:
        code = error.code
    finally:
        result.close()
    assert code == ("" if is_ok else "storlet.limit.output")
    (acquire,) = [message for message in at.node.asked if isinstance(message, messages.Acquire)]
    assert acquire.storlet.limits.memory_bytes == memory << 20
