"""``std:sequence`` on a cluster: steps of both languages, and after a mandatory rule."""

from __future__ import annotations

import json

import pytest

from tests.functional.wards import MASK_FIRST, MASKED, assert_reveals_nothing, make_ward, told
from tests.support.http import Answer, Client

TEXT = b"one\ntwo words\nthree words\nno end"


def run(client: Client, path: str, steps: object, placement: str = "object") -> Answer:
    proxy = {"X-Storlet-Run-On-Proxy": ""} if placement == "proxy" else {}
    headers = {"X-Run-Storlet": "std:sequence", **proxy}
    return client.get(path, headers, query={"steps": json.dumps(steps)})


@pytest.fixture
def text(owner: Client, container: str) -> str:
    path = f"{container}/text.txt"
    assert owner.put(path, TEXT).status == 201
    return path


def test_steps_of_both_languages(
    owner: Client, storlet_names: dict[str, str], text: str, placement: str
) -> None:
    grep = {"storlet": "std:grep", "parameters": {"pattern": "words"}}
    steps = [grep, storlet_names["java"], storlet_names["python"], "std:wordcount"]
    answer = run(owner, text, steps, placement)
    assert (answer.status, answer.body) == (200, b"three\t1\ntwo\t1\nwords\t2\n"), answer
    assert answer.headers["X-Storlet-Ran-On"].split(",")[0].strip() == placement


def test_sixteen_steps(owner: Client, text: str) -> None:
    answer = run(owner, text, ["std:nop"] * 16)
    assert (answer.status, answer.body) == (200, TEXT), answer


def test_a_failing_step_gives_no_short_result(owner: Client, text: str) -> None:
    answer = run(owner, text, ["std:nop", {"storlet": "std:grep", "parameters": {"pattern": "("}}])
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert "step 2 of 2 (std:grep)" in answer.text


def test_steps_in_an_object(owner: Client, container: str, text: str) -> None:
    steps = b'["std:wordcount", {"storlet": "std:grep", "parameters": {"pattern": "words"}}]'
    assert owner.put(f"{container}/steps.json", steps).status == 201
    answer = owner.get(
        text, {"X-Run-Storlet": "std:sequence"}, query={"steps-object": f"/{container}/steps.json"}
    )
    assert (answer.status, answer.body) == (200, b"words\t2\n"), answer


def test_it_runs_after_a_mandatory_rule(users: dict[str, Client]) -> None:
    ward = make_ward(users)
    ward.rule(MASK_FIRST, accept=True)
    answer = run(ward.researcher, "patients/a.csv", ["std:nop", "std:nop"])
    assert (answer.status, answer.body) == (200, MASKED), answer
    assert "SECRET" not in told(answer)
    hidden = {"X-Run-Storlet": "std:sequence"}
    query = {"steps-object": "/patients/a.csv"}
    answer = ward.researcher.get("open/a.csv", hidden, query=query)
    assert answer.status == 400
    assert_reveals_nothing(answer)
