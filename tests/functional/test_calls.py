"""Calls of one storlet by another, in the caller's name."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.test_native import upload as upload_native
from tests.functional.test_objects import KINDS, WHOLE, object_of
from tests.functional.test_services import (
    LANGUAGE_AND_KIND,
    SUFFIXES,
    Author,
    ask,
    authors_of,
    md5,
    outcomes,
)
from tests.functional.test_services import upload as upload_asker
from tests.functional.wards import MASK_FIRST, MASKED, Ward, make_ward, told
from tests.support.accounts import unique
from tests.support.http import Answer, Client, raw_connection
from tests.support.storlets import Tool, Toolbox
from tests.support.waiting import retry_until, wait_for

CALLER = "caller.py"
#: Storlets that call each other.
DEEP = [f"deep{number}.py" for number in range(1, 9)]
MAX_DEPTH = 8
RULES = f"""\
{MASK_FIRST}- name: closed
  when: {{method: GET, container: open, object: closed.csv}}
  mandatory: true
  deny: closed for you
"""


def upload(client: Client, name: str, services: str = "call, read") -> None:
    """Upload the storlet that uses its services as its parameter says."""
    answer = upload_asker(client, services, name)
    assert answer.status == 201, answer


def call(client: Client, path: str, *asked: list[Any], **headers: str) -> list[Any]:
    """The outcomes of the Python storlet, or of that of an author."""
    return outcomes(ask(client, path, *asked, storlet=CALLER, **headers))


@pytest.fixture(scope="module")
def caller(owner: Client) -> Client:
    """The owner, whose account has the storlet."""
    upload(owner, CALLER)
    return owner


@pytest.fixture(scope="module")
def authors(owner: Client, toolbox: Toolbox) -> dict[str, Author]:
    """The owner, whose account has a calling storlet in each language."""
    return authors_of(owner, toolbox, "caller", "call, read")


@pytest.fixture(params=SUFFIXES)
def author(request: pytest.FixtureRequest, authors: dict[str, Author]) -> Author:
    """The owner, with the calling storlet of each language."""
    return authors[request.param]


@pytest.fixture(scope="module")
def python(storlet_names: dict[str, str]) -> str:
    return storlet_names["python"]


@pytest.fixture(scope="module", params=KINDS)
def path(request: pytest.FixtureRequest, owner: Client) -> Iterator[str]:
    """An object of each kind that reads as ``WHOLE``."""
    with object_of(owner, request.param, "called") as made:
        yield made


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("author", "path"), LANGUAGE_AND_KIND, indirect=True)
def test_storlets_of_any_language_run_on_objects_of_any_kind(
    author: Author, plain: str, path: str, storlet_names: dict[str, str]
) -> None:
    upper = {"do": "upper", "set-Content-Type": "text/x-called", "set-Made": "yes"}
    spans = [[0, 6], [70_003, 70_013], [len(WHOLE) - 5, None]]
    asked = [["call", name, f"/{path}", upper] for name in storlet_names.values()]
    asked += [["call", storlet_names["python"], f"/{path}", {"do": "upper"}, spans]]
    *whole, parts = call(author, plain, *asked)
    kind = path.rpartition("/")[2]
    for found in whole:
        assert found[:3] == ["ok", md5(WHOLE.upper()), len(WHOLE)]
        assert (found[3]["Kind"], found[3]["Made"], found[4]) == (kind, "yes", "text/x-called")
    expected = WHOLE[:7] + WHOLE[70_003:70_014] + WHOLE[-5:]
    assert parts[5] == expected.upper().decode()


def test_native_storlets_and_those_of_the_library_are_called(caller: Client, plain: str) -> None:
    program = upload_native(caller, b"#!/bin/sh\nexec tr a-z A-Z\n")
    steps = json.dumps([{"storlet": "std:grep", "parameters": {"pattern": "plain"}}, program])
    native, words, both, flow = call(
        caller, plain, ["call", program, f"/{plain}"], ["call", "std:wordcount", f"/{plain}"],
        ["call", "std:sequence", f"/{plain}", {"steps": steps}],
        ["call", "std:distributed", f"/{plain}"],
    )  # fmt: skip
    assert native[5] == both[5] == "0123456789 THE CONTENT OF A PLAIN OBJECT\n"
    assert "plain\t1" in words[5]
    assert flow[:2] == ["ServiceError", "bad_request"]
    assert "std:distributed" in flow[2]


@pytest.mark.parametrize(("author", "path"), LANGUAGE_AND_KIND, indirect=True)
def test_a_result_is_stored(
    author: Author, plain: str, path: str, python: str, container: str
) -> None:
    target = f"/{container}/röd?"
    upper = {"do": "upper", "set-Content-Type": "text/x-called"}
    stored, failed, none, reserved = call(
        author, plain, ["store", python, f"/{path}", target, upper],
        ["store", python, f"/{path}", f"/{container}/failed", {"do": "fail", "after": "10"}],
        ["store", python, f"/{path}", "/no such container/x"],
        ["store", python, f"/{path}", "/storlet/x"],
    )  # fmt: skip
    facts = stored[1]
    assert (facts["size"], facts["etag"]) == (len(WHOLE), md5(WHOLE.upper()))
    assert facts["metadata"]["Kind"] == path.rpartition("/")[2]
    got = author.get(target[1:])
    assert (got.md5, got.headers["Content-Type"]) == (md5(WHOLE.upper()), "text/x-called")
    assert failed[:2] == ["CallFailed", "storlet.failed"]
    assert author.head(f"{container}/failed").status == 404
    assert none[:2] == ["NotFound", "target.not_found"]
    assert reserved[:2] == ["Denied", "access.denied"]


def test_a_storlet_is_called_on_data(
    author: Author, plain: str, storlet_names: dict[str, str], container: str
) -> None:
    line, target = "a line of data, ", f"/{container}/made"
    upper = {"do": "upper", "set-Made": "yes"}
    many = [
        ["call_on", name, line, times, upper]
        for name in storlet_names.values()
        for times in (1, 200_000)
    ]
    *found, native, stored, ranges, broken = call(
        author, plain, *many, ["call_on", "std:wordcount", "b a b", 1],
        ["store_on", storlet_names["python"], line, target, upper],
        ["call_on", storlet_names["python"], line, 1, {}, [[0, 1]]], ["broken", "std:nop"],
    )  # fmt: skip
    for (_, _, _, times, _), result in zip(many, found, strict=True):
        output = line.upper().encode() * int(str(times))
        assert result[:4] == ["ok", md5(output), len(output), {"Made": "yes"}]
        assert result[4:6] == [md5(output), len(output)]
    assert native[7] == "a\t1\nb\t2\n"
    assert stored[1]["etag"] == md5(line.upper().encode())
    assert author.get(target[1:]).body == line.upper().encode()
    assert ranges[:2] == ["ServiceError", "bad_request"]
    # The exception of the source, in the author's language, or the failure of the call.
    assert broken[0] in {"FileNotFoundError", "OSError", "ServiceError"}


def test_data_that_is_cut_is_not_stored(author: Author, plain: str, container: str) -> None:
    target = f"{container}/cut"
    answer = ask(author, plain, ["cut", "std:nop", f"/{target}"])
    assert (answer.status, answer.error) == (422, "storlet.failed"), answer
    [found] = call(author, plain, ["store_on", "std:nop", "x", f"/{target}.2"])
    assert found[0] == "ok"
    assert author.head(target).status == 404


def test_an_encrypted_object_is_read_by_a_called_storlet(
    other_owner: Client, other_names: dict[str, str]
) -> None:
    upload(other_owner, CALLER)
    assert other_owner.put("c/called", b"secret").status == 201
    [found] = call(
        other_owner, "c/called", ["call", other_names["python"], "/c/called", {"do": "upper"}]
    )
    assert found[5] == "SECRET"


def test_a_large_result_is_read_whole_or_in_part(author: Author, plain: str, python: str) -> None:
    whole, part, after = call(
        author, plain, ["call", python, f"/{plain}", {"do": "flood", "bytes": "20000000"}],
        ["head_of", python, f"/{plain}", 10], ["call", python, f"/{plain}"],
    )  # fmt: skip
    block = bytes(range(256)) * 1024
    expected = (block * (20_000_000 // len(block) + 1))[:20_000_000]
    assert whole[1:3] == [md5(expected), 20_000_000]
    assert part == ["ok", 10]
    assert after[0] == "ok"


def test_threads_of_a_storlet_may_call_at_the_same_time(
    author: Author, plain: str, python: str, content: bytes
) -> None:
    [[first, found]] = call(author, plain, ["call_many", python, f"/{plain}", 6])
    assert first == "ok"
    assert [each[:2] for each in found] == [["ok", md5(content)]] * 6


# --- failures -------------------------------------------------------------------------------------


def test_a_failure_has_its_code_and_its_text(author: Author, plain: str, python: str) -> None:
    mine = f"/{plain}"
    asked = [
        ["call", python, mine, {"do": "fail", "word": "früh"}],
        ["call", python, mine, {"do": "fail", "after": "3000000", "pause": "0.5", "word": "late"}],
        ["call", python, mine, {"do": "fail", "how": "exit", "after": "10"}],
        ["call", "no-such.py", mine],
        ["call", python, f"{mine}.no"],
        ["call", python, mine, {}, [[9, 5]]],
        ["call", python, mine, {}, [[1 << 40, None]]],
        ["call", python, "/c"],
        ["call", "a/b", mine],
        ["call", python, mine, {"storlet_x": "y"}],
        ["call", python, mine],
    ]
    early, late, gone, no_storlet, no_object, *refused, fine = call(author, plain, *asked)
    for failed in (early, late, gone):
        assert failed[:2] == ["CallFailed", "storlet.failed"]
        assert f"call of {python}" in failed[2]
    assert "fails on purpose: früh" in early[2]
    assert "fails on purpose: late" in late[2]
    assert no_storlet[:2] == ["NotFound", "storlet.not_found"]
    assert "no-such.py" in no_storlet[2]
    assert no_object[:2] == ["NotFound", "input.not_found"]
    assert f"{mine}.no" in no_object[2]
    assert [each[:2] for each in refused] == [
        ["ServiceError", "bad_request"], ["ServiceError", "range.unsatisfiable"],
        ["ServiceError", "bad_request"], ["ServiceError", "bad_request"],
        ["ServiceError", "bad_request"],
    ]  # fmt: skip
    assert fine[0] == "ok"


def test_a_call_needs_the_declaration(caller: Client, plain: str, python: str) -> None:
    upload(caller, "reader.py", "read")
    answer = ask(caller, plain, ["call", python, f"/{plain}"], storlet="reader.py")
    assert outcomes(answer)[0][:2] == ["Denied", "services.undeclared"]


def test_a_storlet_that_is_killed_fails_the_call(caller: Client, plain: str) -> None:
    upload(caller, DEEP[0])
    killed = json.dumps([["die", f"/{plain}"]])
    [found] = call(caller, plain, ["call", DEEP[0], f"/{plain}", {"ask": killed}])
    assert found[:2] == ["CallFailed", "storlet.failed"]


# --- runs inside each other -----------------------------------------------------------------------


def test_runs_are_eight_deep_and_no_deeper_and_no_cycles(caller: Client, plain: str) -> None:
    for name in DEEP:
        upload(caller, name)

    def nested(names: list[str]) -> list[Any]:
        """The outcome of the innermost call."""
        inner: list[Any] = ["stat", f"/{plain}"]
        for name in reversed(names):
            inner = ["call", name, f"/{plain}", {"ask": json.dumps([inner])}]
        [found] = call(caller, plain, inner)
        for _ in names:
            if found[0] != "ok":
                break
            [found] = json.loads(found[5])
        return list(found)

    assert nested(DEEP[: MAX_DEPTH - 1])[0] == "ok"
    name, code, text = nested(DEEP)
    assert (name, code) == ("CallFailed", "storlet.services")
    assert f"{MAX_DEPTH} deep: {CALLER} -> {DEEP[0]}" in text
    name, code, text = nested([DEEP[0], CALLER])
    assert (name, code) == ("CallFailed", "storlet.services")
    assert f"{CALLER} -> {DEEP[0]} -> {CALLER}" in text


def records(client: Client, since: float, parent: str = "") -> list[dict[str, Any]]:
    """The records of inner runs from a time on: a page has the objects of all earlier tests."""
    answer = client.get("", query=f"storlet-runs&limit=200&since={since}")
    assert answer.status == 200, answer
    found = [each for each in json.loads(answer.body) if each.get("parent")]
    return [each for each in found if parent in {"", each["parent"]}]


def test_records_and_usage_show_calls(
    caller: Client, plain: str, content: bytes, python: str
) -> None:
    began = time.time()
    assert caller.post("", {"X-Account-Meta-Storlet-Records": "all"}).status == 204
    try:
        asked = json.dumps([["call", python, f"/{plain}"]] * 2)
        headers = {"X-Run-Storlet": CALLER, "X-Storlet-Parameter-1": f"ask:{asked}"}
        answer = caller.request("COPY", plain, {**headers, "Destination": f"{plain}.found"})
        assert answer.status == 201, answer
        size = 2 * len(content)
        usage = f";service-operations=2;service-in={size};service-out=0"
        assert usage in answer.headers["X-Storlet-Usage"]
        outer = answer.headers["X-Storlet-Invocation"]
        inner = retry_until(lambda: len(got := records(caller, began, outer)) == 2 and got, 30)
        assert [each["storlets"][0]["name"] for each in inner] == [python] * 2
        assert {each["code"] for each in inner} == {"ok"}
        assert {each["placement"] for each in inner} == {"object"}
        assert {each["caller"] for each in inner} == {"test:tester"}
    finally:
        assert caller.post("", {"X-Account-Meta-Storlet-Records": ""}).status == 204


def slow_call(python: str, plain: str, word: str) -> list[Any]:
    return ["call", python, f"/{plain}", {"do": "slow", "before": "60", "count": word}]


def await_cancelled(client: Client, since: float, word: str) -> None:
    """Wait for the record of the inner run, which has not run to its end."""

    def found() -> list[str]:
        found = [(each["code"], each.get("parameters", {})) for each in records(client, since)]
        return [code for code, given in found if given.get("count") == word]

    wait_for(found, 40, "the record of the inner run")
    assert found() == ["client.gone"]


def test_the_deadline_of_the_outer_run_ends_the_inner_one(
    caller: Client, plain: str, python: str
) -> None:
    began, word = time.time(), unique("word")
    limit = {"X_Storlet_Limit_Timeout_Total": "5s"}
    answer = ask(caller, plain, slow_call(python, plain, word), storlet=CALLER, **limit)
    assert (answer.status, answer.error) == (422, "storlet.timeout.total"), answer
    await_cancelled(caller, began, word)


def test_a_client_that_disconnects_ends_the_inner_run(
    caller: Client, plain: str, python: str
) -> None:
    began, word = time.time(), unique("word")
    asked = json.dumps([slow_call(python, plain, word)])
    headers = {"X-Run-Storlet": CALLER, "X-Storlet-Parameter-1": f"ask:{asked}"}
    tool = Tool(caller, python)
    with raw_connection(caller) as client:
        client.send_head("GET", plain, headers)
        wait_for(lambda: tool.count(plain, word) == 1, 30, "the inner run")
    await_cancelled(caller, began, word)


def test_a_slow_call_does_not_use_up_the_callers_deadlines(
    caller: Client, plain: str, python: str
) -> None:
    asked = ["call", python, f"/{plain}", {"do": "slow", "before": "2"}]
    [found] = call(caller, plain, asked, X_Storlet_Limit_Timeout_First_Byte="1s")
    assert found[0] == "ok"


# --- rights and rules -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    ward = make_ward(users)
    upload(ward.admin, CALLER)
    assert ward.admin.put("open/closed.csv", b"x").status == 201
    ward.rule(RULES, accept=True)
    return ward


def test_rules_hold_for_calls(ward: Ward) -> None:
    covered = "/patients/a.csv"
    after, copied, part, denied = call(
        ward.researcher, "open/a.csv", ["call", "std:nop", covered],
        ["store", "std:nop", covered, "/open/copy"], ["call", "std:nop", covered, {}, [[0, 9]]],
        ["call", "std:nop", "/open/closed.csv"],
    )  # fmt: skip
    assert after[1] == md5(MASKED)
    assert copied[0] == "ok"
    assert ward.admin.get("open/copy").body == MASKED
    # As the caller's own request is answered.
    headers = {"X-Run-Storlet": "std:nop", "X-Storlet-Range": "bytes=0-9"}
    own = ward.researcher.get(covered[1:], headers)
    assert (part[0] == "ok") == (own.status == 200)
    assert "SECRET" not in json.dumps([after, copied, part])
    assert "SECRET" not in told(own)
    assert denied[:2] == ["Denied", "access.rule"]
    assert "rule closed" in denied[2] or "closed:" in denied[2]


def test_a_called_storlet_of_a_covered_object_is_refused_without_permission(ward: Ward) -> None:
    ward.rule(RULES.replace("  explicit: after\n", ""), accept=True)
    try:
        [[name, code, text]] = call(
            ward.researcher, "open/a.csv", ["call", "std:nop", "/patients/a.csv"]
        )
        assert (name, code) == ("Denied", "access.rule")
        assert "hide" in text
    finally:
        ward.rule(RULES, accept=True)


def test_a_call_has_the_callers_rights(
    caller: Client, users: dict[str, Client], plain: str, python: str, container: str
) -> None:
    """tester3 may read the storlets, and one container through one of them."""
    guest = users["test:tester3"]
    closed = unique("closed")
    assert caller.put(closed).status == 201
    assert caller.put(f"{closed}/o", b"secret").status == 201
    assert caller.post("storlet", {"X-Container-Read": "test:tester3"}).status == 204
    assert caller.post(container, {"X-Container-Read": "test:tester3"}).status == 204
    grant = {"X-Storlet-Container-Read": "test:tester3", "X-Storlet-Name": python}
    assert caller.post(closed, grant).status == 204
    try:
        granted, other, stored, failed = call(
            guest, plain, ["call", python, f"/{closed}/o", {"do": "upper"}],
            ["call", "std:nop", f"/{closed}/o"], ["store", python, f"/{plain}", f"/{closed}/p"],
            ["call", python, f"/{plain}", {"do": "fail", "word": "hidden"}],
        )  # fmt: skip
        # The grant is for this storlet, in any request of the user.
        assert granted[5] == "SECRET"
        assert other[:2] == stored[:2] == ["Denied", "access.denied"]
        # A text of the storlet is for its owner.
        assert failed[:2] == ["CallFailed", "storlet.failed"]
        assert "hidden" not in failed[2]
    finally:
        assert caller.post("storlet", {"X-Remove-Container-Read": "x"}).status == 204


# --- hostile storlets -----------------------------------------------------------------------------


def test_limits_bound_calls(caller: Client, plain: str, python: str) -> None:
    asked = [["call", python, f"/{plain}"]] * 3
    *fine, (name, code, text) = call(caller, plain, *asked, X_Storlet_Limit_Service_Operations="2")
    assert [each[0] for each in fine] == ["ok", "ok"]
    assert (name, code) == ("LimitExceeded", "storlet.limit.services")
    assert "Service-Operations" in text
    large = ["call", python, f"/{plain}", {"do": "flood", "bytes": "1000000"}]
    [[name, code, text]] = call(caller, plain, large, X_Storlet_Limit_Service_Bytes="100K")
    assert (name, code) == ("LimitExceeded", "storlet.limit.services")
    assert "Service-Bytes" in text


def test_a_storlet_that_floods_calls_fails_alone(caller: Client, plain: str, python: str) -> None:
    flooded: Answer = ask(
        caller, plain, ["flood_calls", python, f"/{plain}"], storlet=CALLER,
        X_Storlet_Limit_Timeout_Total="3s",
    )  # fmt: skip
    assert flooded.status == 422, flooded
    assert flooded.error in {"storlet.timeout.first_byte", "storlet.timeout.total"}
    [found] = call(caller, plain, ["call", python, f"/{plain}"])
    assert found[0] == "ok"
