"""The system library on a cluster: GET, PUT, COPY and rules, at both placements."""

from __future__ import annotations

import json

import pytest

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
