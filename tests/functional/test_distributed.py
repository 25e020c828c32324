"""``std:distributed`` on a cluster: many objects, failures, rights and rules."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.functional.wards import RULES, SECRET, assert_reveals_nothing, make_ward
from tests.support.accounts import unique
from tests.support.http import Answer, Client
from tests.support.waiting import retry_until

#: Several times as many as an invocation has inputs, so merges are a tree.
COUNT = 80


@pytest.fixture(scope="module")
def many(owner: Client) -> str:
    """A container with :data:`COUNT` small objects."""
    name = unique("many")
    assert owner.put(name).status == 201
    with ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda n: owner.put(f"{name}/{n:03}", b"line %d\n" % n), range(COUNT))
        assert {answer.status for answer in answers} == {201}
    return name


def distribute(client: Client, document: dict[str, Any], accept: str = "*/*") -> Answer:
    headers = {"X-Run-Storlet": "std:distributed", "Accept": accept}
    return client.request("POST", "", headers=headers, body=json.dumps(document).encode())


def rows(answer: Answer) -> list[dict[str, Any]]:
    assert (answer.status, answer.is_broken) == (200, False), answer
    return [json.loads(line) for line in answer.body.splitlines()]


@pytest.mark.parametrize("accept", ["*/*", "application/x-ndjson"])
def test_a_line_for_each_of_many_objects(owner: Client, many: str, accept: str) -> None:
    found = rows(distribute(owner, {"objects": {"container": many}, "split": "std:nop"}, accept))
    assert sorted(row["output"] for row in found) == sorted(f"line {n}\n" for n in range(COUNT))
    assert {row["outcome"] for row in found} == {"ok"}


def test_lines_come_while_other_objects_are_worked_on(
    owner: Client, plain: str, storlet_names: dict[str, str]
) -> None:
    """An object that is not there is known at once; the other split sleeps."""
    split = {"storlet": storlet_names["python"], "parameters": {"do": "slow", "before": "2"}}
    document = {"objects": [f"/{plain}", f"/{plain}.none"], "split": split, "on-failure": "report"}
    headers = {"X-Run-Storlet": "std:distributed", "Accept": "application/x-ndjson"}
    connection, response = owner.open("POST", "", headers, body=json.dumps(document).encode())
    try:
        first, came = json.loads(response.readline()), time.monotonic()
        rest = [json.loads(line) for line in response.read().splitlines()]
        ended = time.monotonic()
    finally:
        connection.close()
    assert [first["code"], *(row["code"] for row in rest)] == ["input.not_found", "ok"]
    assert ended - came > 1


def test_concat_with_parameters(owner: Client, many: str) -> None:
    split = {"storlet": "std:grep", "parameters": {"pattern": "7$"}}
    answer = distribute(owner, {"objects": {"container": many}, "split": split, "merge": "concat"})
    assert answer.body == b"".join(b"line %d\n" % n for n in range(COUNT) if n % 10 == 7)


def test_failures(owner: Client, many: str) -> None:
    """``std:sum`` fails for each object: its lines are no numbers."""
    document = {"objects": {"container": many, "prefix": "00"}, "split": "std:sum"}
    answer = distribute(owner, document)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert f"/{many}/00" in answer.text
    assert "want key, TAB and a whole number" in answer.text
    found = rows(distribute(owner, {**document, "on-failure": "report"}))
    assert {row["code"] for row in found} == {"storlet.failed"}
    assert len(found) == 10


def test_the_traceback_of_a_storlet_is_apart_from_its_message(
    owner: Client, plain: str, storlet_names: dict[str, str]
) -> None:
    split = {"storlet": storlet_names["python"], "parameters": {"do": "fail"}}
    document = {"objects": [f"/{plain}"], "split": split}
    (row,) = rows(distribute(owner, {**document, "on-failure": "report"}))
    assert "Traceback" not in row["message"]
    assert row["traceback"].startswith("Traceback (most recent call last):\n  File ")
    answer = distribute(owner, document)
    assert f"/{plain}: {row['message']}\n\nTraceback" in answer.text


def test_rules_and_rights_hold_for_each_object(users: dict[str, Client]) -> None:
    ward = make_ward(users)
    ward.rule(RULES)
    assert ward.admin.put("closed").status == 201
    assert ward.admin.put("closed/o", SECRET).status == 201
    document = {
        "objects": ["/patients/a.csv", "/closed/o", "/open/none"],
        "split": "std:nop",
        "on-failure": "report",
    }
    answer = distribute(ward.researcher, document)
    assert [row["code"] for row in rows(answer)] == [
        "access.rule", "access.denied", "input.not_found"
    ]  # fmt: skip
    assert_reveals_nothing(answer)
    found = rows(distribute(ward.physician, document))
    assert [row["outcome"] for row in found] == ["ok", "failed", "failed"]


def test_words_are_counted_by_split_and_merge(owner: Client, many: str) -> None:
    document = {"objects": {"container": many}, "split": "std:wordcount", "merge": "std:sum"}
    answer = distribute(owner, document)
    assert answer.status == 200, answer
    found = dict(line.split(b"\t") for line in answer.body.splitlines())
    assert int(found[b"line"]) == COUNT
    assert len(found) == COUNT + 1
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_records_of_splits_and_merges_name_the_distribution(owner: Client, many: str) -> None:
    wish = "X-Account-Meta-Storlet-Records"
    document = {
        "objects": {"container": many, "prefix": "00"}, "split": "std:wordcount", "merge": "std:sum",
    }  # fmt: skip
    began = time.time()
    assert owner.post("", {wish: "all"}).status == 204
    try:
        answer = distribute(owner, document)
        assert answer.status == 200, answer
        parent = answer.headers["X-Storlet-Invocation"]

        def own() -> list[dict[str, Any]]:
            listed = json.loads(owner.get("", query=f"storlet-runs&limit=1000&since={began}").body)
            return [record for record in listed if record.get("parent") == parent]

        def found() -> list[str]:
            return sorted(record["storlets"][0]["name"] for record in own())

        wanted = ["std:sum"] + ["std:wordcount"] * 10
        assert retry_until(lambda: found() == wanted, 8), found()
        # A node that is full leaves a split to the proxy.
        assert [record["placement"] for record in own()].count("object") > 5
    finally:
        assert owner.post("", {wish: ""}).status == 204


def test_lines_are_counted_by_split_and_merge(owner: Client, many: str) -> None:
    split = {"storlet": "std:grep", "parameters": {"pattern": "[02468]$", "count": True}}
    document = {"objects": {"container": many}, "split": split, "merge": "std:sum"}
    assert distribute(owner, document).body == b"%d\n" % (COUNT // 2)


# --- output ---------------------------------------------------------------------------------------


def test_the_result_is_stored(owner: Client, many: str, container: str) -> None:
    document = {"objects": {"container": many}, "split": "std:wordcount", "merge": "std:sum"}
    plain = distribute(owner, document)
    path = f"{container}/words ü.txt"
    answer = distribute(owner, {**document, "output": "/" + path})
    assert answer.status == 201, answer
    summary = json.loads(answer.body)
    stored = owner.get(path)
    assert stored.body == plain.body
    assert stored.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert summary["etag"] == stored.headers["Etag"] == answer.headers["Etag"]
    assert (summary["bytes"], summary["objects"]) == (len(plain.body), COUNT)


def test_lines_with_failures_are_stored(owner: Client, many: str, container: str) -> None:
    document = {
        "objects": [f"/{many}/001", f"/{many}/none"], "split": "std:nop",
        "on-failure": "report", "output": f"/{container}/report",
    }  # fmt: skip
    answer = distribute(owner, document)
    assert (answer.status, json.loads(answer.body)["failed"]) == (201, 1)
    rows_of = [json.loads(line) for line in owner.get(f"{container}/report").body.splitlines()]
    assert [row["code"] for row in rows_of] == ["ok", "input.not_found"]


def test_a_failure_stores_nothing(owner: Client, many: str, container: str) -> None:
    path = f"{container}/result"
    assert owner.put(path, b"the old one").status == 201
    document = {"objects": {"container": many}, "split": "std:sum", "output": "/" + path}
    answer = distribute(owner, document)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert owner.get(path).body == b"the old one"


@pytest.mark.parametrize("placed", ["closed", "missing", "full", "reserved"])
def test_a_wrong_output_is_refused_before_any_split(
    owner: Client, users: dict[str, Client], many: str, container: str, placed: str
) -> None:
    """Each split would fail."""
    wanted = {
        "closed": (403, "access.denied"),
        "missing": (404, "target.not_found"),
        "full": (413, "swift.refused"),
        "reserved": (400, "bad_request"),
    }[placed]
    target = {"missing": unique("missing"), "reserved": "storletlog"}.get(placed, container)
    client = users["test:tester3"] if placed == "closed" else owner
    if placed == "full":
        assert owner.post(container, {"X-Container-Meta-Quota-Count": "0"}).status == 204
    document = {"objects": {"container": many}, "split": "std:sum", "output": f"/{target}/o"}
    answer = distribute(client, document)
    assert (answer.status, answer.error) == wanted, answer


def test_a_rule_about_the_output_holds(users: dict[str, Client]) -> None:
    ward = make_ward(users)
    ward.rule(
        "version: 1\nrules:\n- name: closed\n  when: {method: PUT, container: patients}\n"
        "  deny: nothing is added\n"
    )
    document = {"objects": ["/open/none"], "split": "std:nop", "output": "/patients/b.csv"}
    answer = distribute(ward.admin, document)
    assert (answer.status, answer.error) == (403, "access.rule"), answer
    assert answer.headers["X-Storlet-Rule"] == "closed"
