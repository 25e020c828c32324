"""``std:sequence``: its parameters, its checks, and the rights of its steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from storlet_middleware.catalog.library import Library
from storlet_middleware.errors import StorletNotFound
from tests.unit.middleware.support import (
    Answer,
    FakeSwift,
    Node,
    Proxy,
    WorkerRun,
    assert_idle,
    make_config,
)

READER = "test2:reader"
SEQUENCE = {"X-Run-Storlet": "std:sequence"}


def adding(worker: WorkerRun) -> None:
    """Append the parameter ``add`` to the input."""
    worker.begin()
    worker.write(worker.read() + worker.invoke.parameters.get("add", "").encode())
    worker.succeed()


@pytest.fixture(autouse=True)
def node_adds(node: Node) -> None:
    node.workers.script = adding


@pytest.fixture
def data(swift: FakeSwift) -> FakeSwift:
    swift.put("c", "o", b"0")
    for name in ("one.py", "two.py"):
        swift.put_storlet(name)
    return swift


def run(proxy: Proxy, steps: Any, path: str = "c/o", **more: Any) -> Answer:
    query = urlencode({"steps": json.dumps(steps)})
    answer: Answer = proxy.call("GET", f"{path}?{query}", SEQUENCE, **more)
    return answer


def test_each_step_reads_the_output_of_the_one_before(proxy: Proxy, data: FakeSwift) -> None:
    steps = [{"storlet": "one.py", "parameters": {"add": number}} for number in (1, 2)]
    answer = run(proxy, [*steps, "two.py", {"storlet": "two.py", "parameters": {"add": "x"}}])
    assert (answer.status, answer.data) == (200, b"012x")
    assert answer.headers["X-Storlet-Ran-On"].count(",") == 3
    assert data.unclosed() == 0
    assert_idle(proxy)


def test_a_put_stores_the_output_of_the_last_step(proxy: Proxy, data: FakeSwift) -> None:
    steps = json.dumps([{"storlet": "one.py", "parameters": {"add": "+"}}, "two.py"])
    headers = {**SEQUENCE, "X-Storlet-Parameter-1": f"steps:{steps}"}
    assert proxy.call("PUT", "c/new", headers, body=b"body").status == 201
    assert data.containers["c"].objects["new"].body == b"body+"


def test_further_outputs_are_those_of_the_last_step(
    proxy: Proxy, data: FakeSwift, node: Node
) -> None:
    def script(worker: WorkerRun) -> None:
        text = worker.read()
        worker.begin()
        for number in range(1, len(worker.outs)):
            worker.begin_further(number)
        for number in range(len(worker.outs)):
            worker.write(text + b"%d" % number, number)
        worker.succeed()

    node.workers.script = script
    headers = {**SEQUENCE, "X-Storlet-Output": "/c/further"}
    query = urlencode({"steps": json.dumps(["one.py", "two.py"])})
    answer = proxy.call("GET", f"c/o?{query}", headers)
    assert (answer.status, answer.data) == (200, b"000")
    assert data.containers["c"].objects["further"].body == b"001"
    assert_idle(proxy)


def test_the_steps_may_be_an_object(proxy: Proxy, data: FakeSwift) -> None:
    data.put("flows", "f.json", b'[{"storlet": "one.py", "parameters": {"add": "!"}}]')
    answer = proxy.call("GET", "c/o?steps-object=/flows/f.json", SEQUENCE)
    assert (answer.status, answer.data) == (200, b"0!")
    assert data.unclosed() == 0


@pytest.mark.parametrize(("user", "status"), [("", 401), (READER, 403)])
def test_a_caller_without_rights_waits_for_no_slot(
    proxy: Proxy, data: FakeSwift, monkeypatch: pytest.MonkeyPatch, user: str, status: int
) -> None:
    """Every caller may run the library, and a pipeline has its slots before it reads the object."""
    admitted: list[Any] = []
    launcher = proxy.filter._proxy.launcher
    admit = launcher.admit_together
    monkeypatch.setattr(
        launcher, "admit_together", lambda demands: admitted.append(demands) or admit(demands)
    )
    query = urlencode({"steps": json.dumps(["std:nop", "std:nop"])})
    answer = proxy.call("GET", f"c/o?{query}", SEQUENCE, user=user)
    assert (answer.status, admitted) == (status, [])
    data.containers["c"].read = READER
    assert proxy.call("GET", f"c/o?{query}", SEQUENCE, user=READER).status == 200
    assert admitted
    assert_idle(proxy)


def test_the_object_with_the_steps_is_read_in_the_callers_name(
    proxy: Proxy, data: FakeSwift
) -> None:
    data.put("flows", "f.json", b'["std:nop"]')
    data.containers["c"].read = READER
    answer = proxy.call("GET", "c/o?steps-object=/flows/f.json", SEQUENCE, user=READER)
    assert (answer.status, answer.error) == (403, "access.denied")
    assert b"/flows/f.json: 403" in answer.data
    answer = proxy.call("GET", "c/o?steps-object=/flows/none", SEQUENCE)
    assert (answer.status, answer.error) == (404, "input.not_found")
    data.put("flows", "large", b"x" * (300 << 10))
    answer = proxy.call("GET", "c/o?steps-object=/flows/large", SEQUENCE)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert data.unclosed() == 0


def test_all_faults_of_all_steps_come_at_once(proxy: Proxy, data: FakeSwift) -> None:
    steps = [
        {"storlet": "a/b", "parameter": {}},
        {"parameters": {"storlet_x": "1", "y": [1]}},
        {"storlet": "one.py", "limits": {"Memory": "1T", "colour": 1}, "parameters": 5},
        {"storlet": "std:sequence"},
        7,
    ]
    answer = run(proxy, steps)
    assert (answer.status, answer.error) == (400, "bad_request")
    for text in (
        "step 1: storlet: 'a/b': want the name",
        "step 1: unknown key 'parameter'; did you mean parameters?",
        "step 2: storlet: None: want the name",
        "step 2: parameter 'storlet_x': names that begin with storlet_ are reserved",
        "step 2: parameter 'y': want a text",
        "step 3: parameters: 5: want an object",
        "step 3: X-Storlet-Limit-Colour",
        "step 3: X-Storlet-Limit-Memory",
        "step 4: storlet: std:sequence: a flow cannot be a part of a flow",
        "step 5: '7': want a name",
    ):
        assert text in answer.data.decode(), text
    assert not data.requests("GET")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "want one of the parameters steps and steps-object"),
        ("steps=[]&steps-object=/a/b", "want one of the parameters steps and steps-object"),
        ("steps=[]", "want a JSON list of 1 to 16 steps"),
        ("steps=x", "want a JSON list of 1 to 16 steps"),
        ("steps=" + "[" * 3000, "want a JSON list of 1 to 16 steps"),
        (urlencode({"steps": json.dumps(["std:nop"] * 17)}), "want a JSON list of 1 to 16 steps"),
        ('steps=["std:nop"]&step=1', "parameter 'step': unknown: std:sequence has steps and"),
        ("steps-object=x", "want /container/object"),
        ("steps-object=/c/" + "o" * 1025, "the name of the object has more than 1024 bytes"),
        (urlencode({"steps": json.dumps(["n" * 1025])}), "has more than 1024 bytes"),
    ],
)
def test_wrong_parameters_are_refused(proxy: Proxy, data: FakeSwift, query: str, text: str) -> None:
    answer = proxy.call("GET", f"c/o?{query}", SEQUENCE)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert text in answer.data.decode()


def test_a_caller_needs_access_to_each_storlet(proxy: Proxy, data: FakeSwift) -> None:
    data.containers["c"].read = READER
    assert run(proxy, ["std:nop", "std:nop"], user=READER).status == 200
    answer = run(proxy, ["std:nop", "one.py"], user=READER)
    assert (answer.status, answer.error) == (403, "access.denied")


def test_a_missing_storlet_of_a_later_step_is_refused_before_anything_runs(
    proxy: Proxy, data: FakeSwift, node: Node
) -> None:
    answer = run(proxy, ["one.py", "std:gerp"])
    assert (answer.status, answer.error) == (404, "storlet.not_found")
    assert node.workers.runs == []


def test_only_a_grant_for_the_first_storlet_opens_the_object(proxy: Proxy, data: FakeSwift) -> None:
    """A first step of the caller's choice could bring what a later one hides into another form."""
    grant = {"X-Storlet-Container-Read": READER, "X-Storlet-Name": "std:nop"}
    assert proxy.call("POST", "c", grant).status == 204
    assert run(proxy, ["std:nop", "std:wordcount"], user=READER).status == 200
    assert run(proxy, ["std:wordcount", "std:nop"], user=READER).status == 403


def test_a_grant_cannot_name_a_flow(proxy: Proxy, data: FakeSwift) -> None:
    grant = {"X-Storlet-Container-Read": READER, "X-Storlet-Name": "std:sequence"}
    answer = proxy.call("POST", "c", grant)
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"a flow has no grants" in answer.data


def test_the_step_that_failed_is_named(proxy: Proxy, data: FakeSwift, node: Node) -> None:
    def failing(worker: WorkerRun) -> None:
        if worker.invoke.parameters.get("add") == "2":
            worker.fail("ValueError: not this")
        else:
            adding(worker)

    node.workers.script = failing
    steps = [{"storlet": "one.py", "parameters": {"add": number}} for number in (1, 2, 3)]
    answer = run(proxy, steps)
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert b"step 2 of 3 (one.py)" in answer.data
    assert_idle(proxy)


def test_an_operator_can_switch_it_off(swift: FakeSwift, node: Node, short_dir: Path) -> None:
    swift.put("c", "o", b"0")
    proxy = Proxy(swift, make_config(short_dir, library__disabled="std:sequence"))
    answer = run(proxy, ["std:nop"])
    assert (answer.status, answer.error) == (404, "storlet.not_found")
    assert b"switched it off" in answer.data
    assert "std:sequence" not in proxy.filter._proxy.catalog.library.published()


def test_a_rule_cannot_run_it_as_a_storlet(proxy: Proxy) -> None:
    library: Library = proxy.filter._proxy.catalog.library
    with pytest.raises(StorletNotFound, match="a flow is no storlet"):
        library.member("std:sequence")
