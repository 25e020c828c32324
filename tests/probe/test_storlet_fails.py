"""A failing storlet: the right error code, exactly one run, and no short result that looks
complete."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support.accounts import unique
from tests.support.host import SERVERS, Host, check_numbered, new_key
from tests.support.http import Client, raw_connection
from tests.support.storlets import LANGUAGES, SOURCES, Tool
from tests.support.tenant import Tenant

Java = Callable[[str], Tool]

#: Every way to end without success that takes no deadline to notice.
BAD_ENDS = ("raise", "exit", "sysexit", "thread-exit", "kill", "abort", "exec")
#: Swift's log lines for errors that it counts against a node.
BLAME = r"ERROR|[Ee]rror.limit"
OLD = b"the old object, byte for byte"
MANY_LINES = "40000"  # more than every buffer on the way to the client


# --- before any output ----------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_storlet_that_raises_runs_exactly_once_and_no_node_is_blamed(
    host: Host, tenant: Tenant, java: Java, placement: str, language: str
) -> None:
    tool = java(placement) if language == "java" else Tool(tenant.client, "multitool.py", placement)
    if language == "python":
        tenant.upload("multitool.py", (SOURCES / "multitool.py").read_bytes(), "Multitool")
    key = unique("raise")
    with host.new_log(*SERVERS) as log:
        answer = tool.get(
            tenant.path, "fail", {"X-Storlet-Generate-Log": "True"}, count=key, word="traceword"
        )
        assert (answer.status, answer.error, answer.is_broken) == (422, "storlet.failed", False), (
            answer
        )
        assert answer.headers["X-Storlet-Ran-On"] == placement
        counted = tool.get(tenant.path, "counted", of=key)
        assert (counted.status, counted.is_broken, counted.body) == (200, False, b"1"), counted
        run = answer.headers["X-Storlet-Invocation"]
        assert len(re.findall(rf"invocation done id={run} ", log())) == 1
        assert "code=storlet.failed" in log()
        # (Swift's access log has the query string; the storlet's output is in no log of the
        # operator.)
        assert not re.search(BLAME + "|Traceback|fails on purpose", log()), log()
    assert "traceword" in answer.text
    kept = tenant.client.get(f"storletlog/{tool.storlet}/{run}.log")
    assert kept.status == 200
    assert "traceword" in kept.text


@pytest.mark.parametrize("how", BAD_ENDS)
def test_every_failure_before_output_is_reported_and_runs_once(
    tenant: Tenant, placement: str, how: str
) -> None:
    key = new_key()
    answer = tenant.tool(placement).get(tenant.path, "end", how=how, key=key)
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert tenant.count(key) == 1
    assert tenant.is_well(placement)


def test_only_users_with_permission_see_the_traceback(
    tenant: Tenant, users: dict[str, Client], placement: str
) -> None:
    for container in ("storlet", "data"):
        assert tenant.client.post(container, {"X-Container-Read": "test2:tester2"}).status == 204
    stranger = Tool(users["test2:tester2"].on(tenant.account), "gremlin.py", placement)
    for accept in ("text/plain", "application/json"):
        answer = stranger.get(tenant.path, "end", {"Accept": accept}, how="raise", word="traceword")
        assert (answer.status, answer.error) == (422, "storlet.failed")
        assert "Traceback" not in answer.text
        assert "gremlin.py" not in answer.text
    owner = tenant.tool(placement).get(tenant.path, "end", how="raise", word="traceword")
    assert "Traceback" in owner.text
    assert "traceword" in owner.text


def test_many_storlet_failures_do_not_count_against_the_nodes(host: Host, tenant: Tenant) -> None:
    with host.new_log(*SERVERS) as log:
        for _ in range(15):
            assert tenant.tool().get(tenant.path, "end", how="raise").status == 422
        answer = tenant.tool().get(tenant.path)
        assert (answer.status, answer.headers["X-Storlet-Ran-On"]) == (200, "object")
        assert not re.search(BLAME, log()), log()


# --- after half the output ------------------------------------------------------------------------


@pytest.mark.parametrize("how", BAD_ENDS)
def test_a_get_breaks_when_the_storlet_fails_in_the_body(
    tenant: Tenant, placement: str, how: str
) -> None:
    key = new_key()
    answer = tenant.tool(placement).get(tenant.path, "end", how=how, lines=MANY_LINES, key=key)
    assert (answer.status, answer.is_broken) == (200, True), answer.status
    assert check_numbered(answer.body) <= int(MANY_LINES)
    assert tenant.count(key) == 1


def test_a_get_of_http_1_0_is_reset_when_the_storlet_fails_in_the_body(
    tenant: Tenant, placement: str
) -> None:
    tool = tenant.tool(placement)
    with raw_connection(tenant.client) as client:
        client.send_head(
            "GET",
            tenant.path,
            tool.headers(),
            {"do": "end", "how": "exit", "lines": MANY_LINES},
            version="1.0",
        )
        status, headers = client.read_head()
        body, how = client.read_to_end()
    assert status == 200
    assert "content-length" not in headers
    assert how == "reset"
    check_numbered(body)


def test_a_whole_get_of_http_1_0_is_not_reset(tenant: Tenant, placement: str) -> None:
    with raw_connection(tenant.client) as client:
        client.send_head("GET", tenant.path, tenant.tool(placement).headers(), version="1.0")
        status, _ = client.read_head()
        assert (status, client.read_to_end()) == (200, (tenant.content, "closed"))


@pytest.mark.parametrize("lines", ["1", MANY_LINES])
@pytest.mark.parametrize("how", BAD_ENDS)
def test_a_put_stores_nothing_when_the_storlet_fails(tenant: Tenant, how: str, lines: str) -> None:
    path = f"data/{unique('put')}"
    assert tenant.client.put(path, OLD).status == 201
    answer = tenant.tool().put(path, b"new" * 1000, "end", how=how, lines=lines)
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert tenant.client.get(path).body == OLD
    assert (
        tenant.tool().put(path + "-new", b"new" * 1000, "end", how=how, lines=lines).status == 422
    )
    assert tenant.client.get(path + "-new").status == 404


@pytest.mark.parametrize("how", BAD_ENDS)
def test_a_copy_stores_nothing_when_the_storlet_fails(
    tenant: Tenant, placement: str, how: str
) -> None:
    path, key = f"data/{unique('copy')}", new_key()
    assert tenant.client.put(path, OLD).status == 201
    answer = tenant.tool(placement).copy(
        tenant.path, path, "end", how=how, lines=MANY_LINES, key=key
    )
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    assert tenant.client.get(path).body == OLD
    assert tenant.count(key) == 1


@pytest.mark.parametrize("how", ["raise", "runtime", "exit"])
def test_a_failure_of_java_in_the_body_breaks_the_response(
    tenant: Tenant, java: Java, placement: str, how: str
) -> None:
    tool = java(placement)
    answer = tool.get(tenant.path, "fail", how=how, after="2000000")
    assert (answer.status, answer.is_broken) == (200, True), answer.status
    path = f"data/{unique('java')}"
    assert tenant.client.put(path, OLD).status == 201
    assert tool.copy(tenant.path, path, "fail", how=how, after="2000000").status == 422
    assert tool.put(path, b"new", "fail", how=how, after="2000000").status == 422
    assert tenant.client.get(path).body == OLD


def test_a_put_over_an_erasure_coded_object_stores_nothing_either(tenant: Tenant) -> None:
    assert tenant.client.put("coded", headers={"X-Storage-Policy": "ec21"}).status in (201, 202)
    assert tenant.client.put("coded/object", OLD).status == 201
    answer = tenant.tool().put("coded/object", b"new", "end", how="exit", lines=MANY_LINES)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert tenant.client.get("coded/object").body == OLD
    assert tenant.tool().get("coded/object").body == OLD
