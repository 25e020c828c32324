"""The system library on a cluster: GET, PUT, COPY and rules, at both placements."""

from __future__ import annotations

import json
import struct

import pytest

from storlet_client import Storlets, StorletsError, Token
from tests.functional.wards import assert_reveals_nothing, make_ward
from tests.support.accounts import unique
from tests.support.http import Client

TEXT = b"one\ntwo words\nthree\nno end"
RULES = """\
version: 1
rules:
- name: hide
  when: {method: GET, container: patients}
  mandatory: true
  run: {storlet: "std:grep", parameters: {pattern: SECRET, invert: "true"}}
"""


def headers(name: str, placement: str = "object") -> dict[str, str]:
    proxy = {"X-Storlet-Run-On-Proxy": ""} if placement == "proxy" else {}
    return {"X-Run-Storlet": name, **proxy}


@pytest.fixture
def text(owner: Client, container: str) -> str:
    path = f"{container}/text.txt"
    assert owner.put(path, TEXT, {"X-Object-Meta-Colour": "red"}).status == 201
    return path


def test_get(owner: Client, text: str, placement: str) -> None:
    answer = owner.get(text, headers("std:grep", placement), query={"pattern": "o"})
    assert (answer.status, answer.body) == (200, b"one\ntwo words\nno end\n")
    assert answer.headers["X-Storlet-Ran-On"] == placement
    answer = owner.get(text, headers("std:nop", placement))
    assert (answer.body, answer.meta("Colour")) == (TEXT, "red")


def test_several_ranges_are_added(owner: Client, container: str) -> None:
    path = f"{container}/counts"
    assert owner.put(path, b"a\t1\nb\t2\na\t3\n").status == 201
    ranges = {"X-Storlet-Range": "bytes=0-7,8-11"}
    answer = owner.get(path, headers("std:sum") | ranges)
    assert answer.body == b"a\t4\nb\t2\n", answer


def test_put_and_copy(owner: Client, container: str, text: str) -> None:
    path = f"{container}/counted"
    answer = owner.put(path, TEXT, headers("std:wordcount"))
    assert answer.status == 201, answer
    assert owner.get(path).body.splitlines()[0] == b"end\t1"
    copy = headers("std:grep") | {"X-Copy-From": text, "X-Storlet-Parameter-1": "pattern:two"}
    assert owner.put(f"{container}/copied", b"", copy).status == 201
    assert owner.get(f"{container}/copied").body == b"two words\n"


def test_a_mandatory_rule_with_it_lets_nothing_else_out(users: dict[str, Client]) -> None:
    ward = make_ward(users)
    ward.rule(RULES)
    answer = ward.researcher.get("patients/a.csv")
    assert (answer.status, answer.body) == (200, b"")
    assert_reveals_nothing(answer)
    refused = ward.admin.put("storlet_rules/rules.yaml", RULES.replace("grep", "gerp").encode())
    assert (refused.status, refused.error) == (400, "rules.invalid")
    assert "std:gerp" in refused.text


def test_the_list(owner: Client) -> None:
    listed = json.loads(owner.get("", query={"storlet-library": ""}).body)
    assert "std:grep" in [row["name"] for row in listed]


def test_a_storlet_of_this_name_cannot_be_uploaded(owner: Client) -> None:
    answer = owner.put(f"storlet/std:{unique('x')}.py", b"")
    assert (answer.status, answer.error) == (400, "registration.invalid")
    assert "names that begin with std:" in answer.text


def test_unknown_names_and_parameters(owner: Client, text: str) -> None:
    answer = owner.get(text, headers("std:gerp"))
    assert (answer.status, answer.error) == (404, "storlet.not_found")
    assert "did you mean std:grep?" in answer.text
    answer = owner.get(text, headers("std:grep"), query={"the-pattern": "x"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert "did you mean pattern?" in answer.text


def test_records_are_selected_at_the_node(owner: Client, container: str, placement: str) -> None:
    rows = [(number, f"place {number % 7}".encode()) for number in range(20_000)]
    body = b"".join(struct.pack("<i12s", *row) for row in rows)
    path = f"{container}/records"
    assert owner.put(path, body).status == 201
    with Storlets(Token(owner.storage_url, owner.token)) as storlets:
        name = f"{container}", "records"
        found = list(storlets.records(*name, "i4 id, s12 place", "id >= 9000 and place ~ '3'"))
        assert found == [
            {"id": number, "place": place.decode()}
            for number, place in rows
            if number >= 9000 and b"3" in place
        ]
        with storlets.run("std:records", path, {"struct": "i4 id, s12 place"}) as output:
            whole = list(output.records("i4 id, s12 place"))
        assert whole == [{"id": number, "place": place.decode()} for number, place in rows]
        assert owner.put(path, body + b"x").status == 201
        with pytest.raises(StorletsError):
            list(storlets.records(*name, "i4 id, s12 place"))


def test_readers_without_a_login_run_it_only_if_the_account_allows_it(
    owner: Client, container: str, text: str
) -> None:
    assert owner.post(container, {"X-Container-Read": ".r:*"}).status == 204
    anonymous = Client(owner.storage_url, "")
    assert anonymous.get(text).body == TEXT
    refused = anonymous.get(text, headers("std:nop"))
    assert (refused.status, refused.error) == (401, "access.denied")
    assert "X-Account-Meta-Storlet-Library: users" in refused.text
    setting = "X-Account-Meta-Storlet-Library"
    wrong = owner.post("", {setting: "everyone"})
    assert (wrong.status, wrong.error) == (400, "bad_request")
    try:
        assert owner.post("", {setting: "all"}).status == 204
        answer = anonymous.get(text, headers("std:nop"))
        assert (answer.status, answer.body) == (200, TEXT)
    finally:
        assert owner.post("", {setting: ""}).status == 204
