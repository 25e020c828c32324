"""Records of runs: their content, the callers that see it, and that clients cannot change it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.wards import CONTENT, MASKED, RULES, make_ward
from tests.support import bundles
from tests.support.accounts import prepare_account, unique
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.proxies import other_proxy
from tests.support.storlets import LANGUAGES, Tool, Toolbox, declaration
from tests.support.waiting import retry_until

_WISH = "X-Account-Meta-Storlet-Records"
_READ = "X-Account-Access-Control"
#: A record is written at the latest then.
_SECONDS = 5
#: Masks its input with another storlet.
RELAY = b"""
from storlet import services

class Relay:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        with services.call("mask.py", in_files[0].read(), {"word": "SECRET"}) as result:
            out_files[0].write(result.read())
"""
_OWNER = "test:tester"


def access(*readers: str) -> dict[str, str]:
    """Headers of the account: its owner, and the users with rights on it."""
    return {_READ: json.dumps({"admin": [_OWNER], "read-only": readers})}


@pytest.fixture(scope="module")
def owner(users: dict[str, Client]) -> Client:
    """``test:tester``, the owner of a new account.

    A search reads all records of an account, and other tests have left many in that of most tests.
    """
    account = f"AUTH_{unique('records')}"
    assert users["admin:admin"].on(account).post("", access()).status == 204
    client = users[_OWNER].on(account)
    prepare_account(client)
    return client


@pytest.fixture(scope="module")
def storlet_names(owner: Client, toolbox: Toolbox) -> dict[str, str]:
    return {language: toolbox.upload(owner, language, "multitool") for language in LANGUAGES}


@pytest.fixture
def recording(owner: Client) -> Iterator[Client]:
    """The owner, with records of all runs."""
    assert owner.post("", {_WISH: "all"}).status == 204
    yield owner
    assert owner.post("", {_WISH: ""} | access()).status == 204


def runs(client: Client, query: str = "", headers: dict[str, str] | None = None) -> Answer:
    return client.get("", headers, query="storlet-runs" + query)


def listed(client: Client, query: str = "") -> list[dict[str, Any]]:
    answer = runs(client, query)
    assert answer.status == 200, answer
    records: list[dict[str, Any]] = json.loads(answer.body)
    return records


def record_of(client: Client, answer: Answer) -> dict[str, Any]:
    """The record of the run that gave ``answer``, within the time that is promised."""
    run = answer.headers["X-Storlet-Invocation"]
    # Records are written every few seconds, and each search reads those that are there.
    found = retry_until(
        lambda: (got := runs(client, f"&id={run}")).status == 200 and got, _SECONDS + 1, 0.3
    )
    assert found, f"no record of {run}"
    record: dict[str, Any] = json.loads(found.body)
    return record


def test_the_record_of_a_success_has_the_facts_of_the_answer(
    recording: Client, anywhere: Tool, plain: str, content: bytes
) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    began = time.time()
    answer = anywhere.get(plain, "upper", {"traceparent": trace}, log="not kept")
    assert answer.status == 200
    record = record_of(recording, answer)
    assert record["id"] == answer.headers["X-Storlet-Invocation"]
    assert (record["outcome"], record["code"]) == ("ok", "ok")
    (storlet,) = record["storlets"]
    assert (storlet["name"], len(storlet["hash"])) == (anywhere.storlet, 64)
    assert (record["method"], record["object"]) == ("GET", plain)
    assert (record["caller"], record["account"]) == (_OWNER, recording.account)
    assert record["placement"] == answer.headers["X-Storlet-Ran-On"] == anywhere.placement
    assert (record["why"], bool(record["node"])) == (
        "default" if anywhere.placement == "object" else "asked",
        True,
    )
    assert (record["bytes_in"], record["bytes_out"]) == (len(content), len(content))
    assert record["traceparent"] == trace
    assert 0 < record["first_byte_seconds"] <= record["total_seconds"] < time.time() - began
    assert record["peak_memory_bytes"] > 0
    assert not {"log", "traceback", "message", "rule", "target", "caller_id"} & set(record)


def test_the_record_of_a_failure_has_its_reason_without_a_wish(
    owner: Client, tool: Tool, plain: str
) -> None:
    word = unique("word")
    answer = tool.get(plain, "fail", log="before it failed", word=word)
    assert answer.status == 422
    record = record_of(owner, answer)
    assert (record["outcome"], record["code"]) == ("failed", "storlet.failed")
    assert word in record["message"]
    assert f"fails on purpose: {word}" in record["traceback"]
    assert "before it failed" in record["log"]


def test_a_failure_after_the_first_byte_and_one_of_a_put_are_recorded(
    owner: Client, either: Tool, plain: str, container: str
) -> None:
    put = either.put(f"{container}/o", b"x", "fail", log="of a put")
    record = record_of(owner, put)
    assert (record["method"], record["object"]) == ("PUT", f"{container}/o")
    assert "of a put" in record["log"]
    broken = either.get(plain, "fail", after="3000000", pause="0.5")
    assert broken.is_broken
    record = record_of(owner, broken)
    assert (record["code"], record["bytes_out"] > 0) == ("storlet.failed", True)


def test_a_run_that_never_started_is_recorded_and_a_refused_request_is_not(
    recording: Client, any_tool: Tool, container: str
) -> None:
    missing = any_tool.get(f"{container}/missing")
    assert missing.status == 404
    record = record_of(recording, missing)
    assert (record["outcome"], record["code"]) == ("refused", "refused")
    assert record["message"] == "Swift answered 404 Not Found"
    assert "placement" not in record
    unknown = recording.get(f"{container}/missing", {"X-Run-Storlet": "no.py"})
    assert unknown.status == 404
    # Records of an account are written in their order.
    record_of(recording, any_tool.get(f"{container}/missing"))
    assert runs(recording, f"&id={unknown.headers['X-Storlet-Invocation']}").status == 404


def test_the_wish_of_the_account_and_of_the_storlet(
    owner: Client, toolbox: Toolbox, plain: str
) -> None:
    name = toolbox.upload(owner, "python", unique("wish"))
    tool = Tool(owner, name)
    assert owner.post("", {_WISH: "none"}).status == 204
    try:
        unrecorded = [tool.get(plain), tool.get(plain, "fail")]
        declared = dict(owner.head(f"storlet/{name}").headers.items())
        kept = {k: v for k, v in declared.items() if k.startswith("X-Object-Meta-")}
        wish = {**kept, "X-Object-Meta-Storlet-Records": "all"}
        assert owner.post(f"storlet/{name}", wish).status == 202
        recorded = tool.get(plain)
    finally:
        assert owner.post("", {_WISH: ""}).status == 204
    assert record_of(owner, recorded)["outcome"] == "ok"
    for answer in unrecorded:
        assert runs(owner, f"&id={answer.headers['X-Storlet-Invocation']}").status == 404


def test_a_bundle_has_its_wish_in_the_manifest(owner: Client, plain: str) -> None:
    name = unique("wish").replace("_", "-").lower()
    run = {"X-Run-Storlet": name}
    try:
        # Version 1 has no wish, version 2 requires all, and version 1 still has none.
        answers = []
        for fields in ({}, {"records": "all"}):
            packed = bundles.tool(name, **fields)
            assert owner.put(f"storlet/{name}.storlet", packed).status == 201
            answers.append(owner.get(plain, run))
        answers.append(owner.get(plain, {"X-Run-Storlet": f"{name}@1"}))
        assert [answer.status for answer in answers] == [200] * 3, answers
        record = record_of(owner, answers[1])
        assert record["outcome"] == "ok"
        parts = record["code_seconds"] + record["sandbox_seconds"]
        assert 0 < parts <= record["cold_start_seconds"] < record["first_byte_seconds"]
        assert 0 < record["worker_seconds"] < record["first_byte_seconds"]
        assert (record["storlets"][0]["name"], record["storlets"][0]["version"]) == (name, 2)
        for answer in (answers[0], answers[2]):
            assert runs(owner, f"&id={answer.headers['X-Storlet-Invocation']}").status == 404
    finally:
        assert owner.delete(f"storlet/{name}.storlet").status == 204


def test_a_wrong_wish_is_refused_with_the_nearest(owner: Client, any_tool: Tool) -> None:
    refused = owner.post("", {_WISH: "failure"})
    assert (refused.status, refused.error) == (400, "bad_request")
    assert f"{_WISH}: 'failure': want all, failures, none; did you mean failures?" in refused.text
    declared = dict(owner.head(f"storlet/{any_tool.storlet}").headers.items())
    wish = {**declared, "X-Object-Meta-Storlet-Records": "al"}
    refused = owner.post(f"storlet/{any_tool.storlet}", wish)
    assert (refused.status, refused.error) == (400, "registration.invalid")
    assert "did you mean all?" in refused.text


def test_records_are_newest_first_in_pages_and_by_their_fields(
    recording: Client, toolbox: Toolbox, plain: str
) -> None:
    name = toolbox.upload(recording, "python", unique("pages"))
    tool = Tool(recording, name)
    answers = [tool.get(plain, "fail" if number == 3 else "identity") for number in range(7)]
    ids = [answer.headers["X-Storlet-Invocation"] for answer in answers]
    record_of(recording, answers[-1])
    ours = f"&storlet={name}"
    assert retry_until(lambda: len(listed(recording, ours)) == 7, _SECONDS)
    found = listed(recording, ours)
    assert [record["id"] for record in found] == ids[::-1]
    paged, marker = [], ""
    for _ in range(20):
        answer = runs(recording, f"{ours}&limit=3{marker}")
        paged += json.loads(answer.body)
        marker = f"&marker={answer.headers.get('X-Storlet-Runs-Next')}"
        if marker.endswith("=None"):
            break
    assert sorted(record["id"] for record in paged) == sorted(ids)
    assert [r["id"] for r in listed(recording, f"{ours}&outcome=failed")] == [ids[3]]
    assert [r["id"] for r in listed(recording, f"{ours}&outcome=storlet.failed")] == [ids[3]]
    middle = found[3]["time"]
    assert {r["id"] for r in listed(recording, f"{ours}&since={middle}")} == set(ids[3:])
    assert {r["id"] for r in listed(recording, f"{ours}&until={middle}")} == set(ids[:3])


def test_records_as_json_lines(recording: Client, any_tool: Tool, plain: str) -> None:
    record_of(recording, any_tool.get(plain))
    accept = {"Accept": "application/jsonl, application/json;q=0.5"}
    for query, headers in (("=jsonl", {}), ("", accept)):
        answer = runs(recording, query + "&limit=1", headers)
        assert answer.headers["Content-Type"] == "application/jsonl; charset=utf-8"
        assert json.loads(answer.text.splitlines()[0])["id"]


def test_all_faults_of_a_query_are_reported_at_once(owner: Client) -> None:
    answer = runs(owner, "=xml&storlett=x&limit=0&since=yesterday&outcome=fail&marker=1")
    assert (answer.status, answer.error) == (400, "bad_request")
    for text in (
        "unknown parameter 'storlett'; did you mean storlet?", "limit: '0'", "since: 'yesterday'",
        "outcome: 'fail'", "storlet-runs: 'xml'", "marker: '1'",
    ):  # fmt: skip
        assert text in answer.text


def test_another_caller_sees_own_runs_only_and_only_with_rights_on_the_account(
    recording: Client, users: dict[str, Client], any_tool: Tool, plain: str, container: str
) -> None:
    other = users["test2:tester2"].on(recording.account)
    shared = {"X-Container-Read": "test2:tester2"}
    assert recording.post("storlet", shared).status == 204
    assert recording.post(container, shared).status == 204
    tool = Tool(other, any_tool.storlet)
    own = tool.get(plain, "fail", word="secret", log="secret")
    owners = any_tool.get(plain)
    assert (own.status, owners.status) == (422, 200)
    full = record_of(recording, own)
    record_of(recording, owners)
    assert ("secret" in full["message"], full["caller"]) == (True, "test2:tester2")
    assert runs(other).status == 403
    assert recording.post("", access("test2:tester2")).status == 204
    mine = record_of(other, own)
    assert {record["caller"] for record in listed(other)} == {"test2:tester2"}
    assert not {"log", "traceback", "message", "node", "why"} & set(mine)
    assert (mine["code"], mine["object"]) == ("storlet.failed", plain)
    run = owners.headers["X-Storlet-Invocation"]
    refused = runs(other, f"&id={run}")
    assert (refused.status, refused.error) == (404, "run.not_found")
    assert runs(users["test2:tester2"], f"&id={run}").status == 404
    assert runs(Client(recording.storage_url, "")).status == 401


def test_a_caller_under_a_rule_does_not_see_what_the_rule_hides(users: dict[str, Client]) -> None:
    ward = make_ward(users)
    ward.rule(RULES)
    assert ward.admin.post("", {_WISH: "all"}).status == 204
    readers = json.dumps({"read-only": [ward.researcher.user]})
    assert ward.admin.post("", {_READ: readers}).status == 204
    answer = ward.researcher.get("patients/a.csv")
    assert answer.status == 200, answer
    full = record_of(ward.admin, answer)
    assert full["rule"] == answer.headers["X-Storlet-Rule"]
    mine = record_of(ward.researcher, answer)
    hidden = {"rule", "storlets", "why", "node", "bytes_in", "peak_memory_bytes", "placement"}
    assert hidden <= set(full)
    assert not hidden & set(mine)
    name = full["storlets"][0]["name"]
    # A search does not find out what the caller does not see.
    assert listed(ward.researcher, f"&storlet={name}") == []
    assert listed(ward.admin, f"&storlet={name}") != []
    assert ward.admin.post("", {_WISH: "", _READ: ""}).status == 204


def test_a_caller_under_a_rule_does_not_see_the_input_of_what_its_storlet_calls(
    users: dict[str, Client],
) -> None:
    ward = make_ward(users)
    headers = declaration("python", "relay.Relay", Services="call")
    assert ward.admin.put("storlet/relay.py", RELAY, headers).status == 201
    ward.rule(RULES.replace("mask.py", "relay.py"))
    assert ward.admin.post("", {_WISH: "all"}).status == 204
    readers = json.dumps({"read-only": [ward.researcher.user]})
    assert ward.admin.post("", {_READ: readers}).status == 204
    answer = ward.researcher.get("patients/a.csv")
    assert (answer.status, answer.body) == (200, MASKED), answer
    record_of(ward.researcher, answer)
    run = answer.headers["X-Storlet-Invocation"]

    def inner_of(client: Client) -> dict[str, Any]:
        (inner,) = (each for each in listed(client) if each.get("parent") == run)
        return inner

    full, mine = inner_of(ward.admin), inner_of(ward.researcher)
    assert (full["rule"], full["bytes_in"]) == ("hide", len(CONTENT))
    hidden = {"rule", "storlets", "parameters", "bytes_in", "bytes_out", "output_sha256"}
    assert hidden <= set(full)
    assert not hidden & set(mine)
    assert ward.admin.post("", {_WISH: "", _READ: ""}).status == 204


def test_clients_cannot_write_records_and_only_owners_read_and_delete_them(
    recording: Client, users: dict[str, Client], any_tool: Tool, plain: str, container: str
) -> None:
    record_of(recording, any_tool.get(plain))
    name = recording.listing("storletlog", prefix=".runs/")[-1]["name"]
    path = f"storletlog/{name}"
    stored = recording.get(path)
    assert stored.headers["X-Delete-At"]
    assert [json.loads(line)["id"] for line in stored.text.splitlines()]
    forged = f"storletlog/{name[:-10]}0000.jsonl"
    to = {"Destination": f"/{forged}"}
    refusals = [
        recording.put(path, b"{}"),
        recording.post(path, {"X-Object-Meta-A": "b"}),
        recording.request("COPY", path, to),
        recording.put(forged, b"", {"X-Copy-From": f"/{path}"}),
        any_tool.put(forged, b"{}"),
        any_tool.copy(plain, f"/{forged}"),
        recording.put(forged, b"", {"X-Object-Manifest": f"{container}/x"}),
    ]
    assert [(each.status, each.error) for each in refusals] == [(403, "access.denied")] * 7
    other = users["test2:tester2"].on(recording.account)
    acl = {"X-Container-Read": "test2:tester2", "X-Container-Write": "test2:tester2"}
    assert recording.post("storletlog", acl).status == 204
    assert recording.post(container, acl).status == 204
    manifest = json.dumps([{"path": f"/{path}"}]).encode()
    link = {"X-Symlink-Target": path}
    assert recording.put(f"{container}/link", b"", link).status == 201
    slo = recording.put(f"{container}/slo", manifest, query={"multipart-manifest": "put"})
    assert slo.status == 201, slo
    dlo = {"X-Object-Manifest": "storletlog/.runs/"}
    assert recording.put(f"{container}/dlo", b"", dlo).status == 201
    try:
        assert other.get("storletlog").status == 200
        assert [other.get(path).status, other.head(path).status] == [403, 403]
        assert other.delete(path).status == 403
        for indirect in ("link", "slo", "dlo"):
            assert recording.get(f"{container}/{indirect}").body.startswith(b'{"id"')
            answer = other.get(f"{container}/{indirect}")
            assert answer.status >= 400 or answer.is_broken, indirect
            assert b'"id"' not in answer.body
        assert other.put(f"{container}/copy", b"", {"X-Copy-From": f"/{path}"}).status == 403
        assert Tool(other, any_tool.storlet).get(path).status == 403
        assert recording.delete(path).status == 204
    finally:
        none = {"X-Remove-Container-Read": "x", "X-Remove-Container-Write": "x"}
        assert recording.post("storletlog", none).status == 204


def test_two_accounts_have_records_of_their_own(
    recording: Client, users: dict[str, Client], toolbox: Toolbox, any_tool: Tool, plain: str
) -> None:
    other = users["test2:tester2"]
    prepare_account(other)
    assert other.post("", {_WISH: "all"}).status == 204
    assert other.put("c").status in (201, 202)
    assert other.put("c/o", b"x").status == 201
    name = toolbox.upload(other, "python", "theirs")
    theirs, ours = Tool(other, name).get("c/o"), any_tool.get(plain)
    assert record_of(other, theirs)["account"] == other.account
    assert record_of(recording, ours)["account"] == recording.account
    assert {record["account"] for record in listed(other)} == {other.account}
    assert runs(other, f"&id={ours.headers['X-Storlet-Invocation']}").status == 404
    assert other.post("", {_WISH: ""}).status == 204


def test_a_client_follows_runs_through_another_proxy(
    recording: Client, cluster: Cluster, any_tool: Tool, plain: str
) -> None:
    with other_proxy(cluster) as proxy:
        there = proxy.client(recording)
        query = f"storlet-runs&follow&storlet={any_tool.storlet}"
        connection, response = there.open("GET", "", query=query, timeout=_SECONDS + 5)
        try:
            assert (response.status, response.readline()) == (200, b"\n")
            ids = {any_tool.get(plain).headers["X-Storlet-Invocation"] for _ in range(3)}
            found, end = set(), time.monotonic() + _SECONDS + 3
            while found != ids and time.monotonic() < end:
                line = response.readline().strip()
                found |= {json.loads(line)["id"]} if line else set()
        finally:
            connection.close()
        assert found == ids
        other = Client(there.storage_url, "", "")
        assert other.get("", query=query).status == 401
