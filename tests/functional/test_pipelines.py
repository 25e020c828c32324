"""Rules that run several storlets: each reads the output of the one before, and the result needs
all to succeed."""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.accounts import prepare_account, unique
from tests.support.http import Answer, Client
from tests.support.storlets import Toolbox
from tests.support.waiting import retry_until

CONTENT = b"name: ada, age: 42\n" * 1000
#: More than all pipes and buffers of a pipeline hold.
MEGABYTES = 12
METHODS, STEPS, WAYS = ("GET", "PUT", "COPY"), (1, 2, 3), ("raise", "exit")
#: Failures of steps: each two of method, step and way occur together, which do not depend on each
#: other.
FAILURES = [
    (method, step, WAYS[(row + step) % len(WAYS)])
    for row, method in enumerate(METHODS)
    for step in STEPS
]


@dataclass
class Pipes:
    """An account with one rule, which a test sets, for objects of the container ``c``."""

    owner: Client
    python: str
    java: str

    def rule(
        self, *steps: dict[str, Any], method: str = "GET", container: str = "c", **more: Any
    ) -> None:
        rule = {
            "name": "piped",
            "when": {"method": method, "container": container},
            "run": list(steps),
            **more,
        }
        text = json.dumps({"version": 1, "rules": [rule]}).encode()
        answer = self.owner.put(
            "storlet_rules/rules.yaml", text, {"X-Storlet-Rules-Accept-Warnings": "true"}
        )
        assert answer.status == 201, answer.text

    def step(
        self, do: str = "identity", *, on: str = "", java: bool = False, **parameters: str
    ) -> dict[str, Any]:
        named = {key.replace("_", "-"): value for key, value in parameters.items()}
        step: dict[str, Any] = {
            "storlet": self.java if java else self.python,
            "parameters": {"do": do, **named},
        }
        return step | ({"on": on} if on else {})


@pytest.fixture(scope="module")
def pipes(users: dict[str, Client], toolbox: Toolbox) -> Iterator[Pipes]:
    owner = users["admin:admin"].on(f"AUTH_{unique('pipes')}")
    prepare_account(owner)
    for container in ("storlet_rules", "c", "d"):
        assert owner.put(container).status == 201
    headers = {
        "Content-Type": "text/csv",
        "X-Object-Meta-Study": "7",
        "X-Object-Meta-Colour": "red",
    }
    assert owner.put("c/o", CONTENT, headers).status == 201
    yield Pipes(owner, toolbox.upload(owner, "python", "one"), toolbox.upload(owner, "java", "two"))
    owner.delete("storlet_rules/rules.yaml")


@pytest.fixture(params=["object", "proxy"])
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def send(pipes: Pipes, method: str) -> Answer:
    if method == "COPY":
        return pipes.owner.request("COPY", "c/o", {"Destination": "d/copy"})
    return pipes.owner.put("c/new", CONTENT) if method == "PUT" else pipes.owner.get("c/o")


def nothing_is_stored(pipes: Pipes) -> bool:
    return pipes.owner.head("d/copy").status == pipes.owner.head("c/new").status == 404


# --- successful pipelines


def test_storlets_of_both_languages_read_one_anothers_output(pipes: Pipes, on: str) -> None:
    pipes.rule(
        pipes.step("identity", on=on, set_colour="blue", set_first="1"),
        pipes.step("upper", java=True, set_second="2"),
        pipes.step("describe", set_third="3", set_first="again"),
    )
    answer = pipes.owner.get("c/o")
    assert (answer.status, answer.headers["X-Storlet-Rule"]) == (200, "piped"), answer
    assert answer.headers["X-Storlet-Ran-On"] == f"{on},proxy,proxy"
    lines = dict(line.split("=", 1) for line in answer.text.splitlines())
    seen = {key: bytes.fromhex(value).decode() for key, value in lines.items()}
    assert seen["input.0.md5"] == hashlib.md5(CONTENT.upper(), usedforsecurity=False).hexdigest()
    known = {key: value for key, value in seen.items() if ".meta." in key}
    assert known == {
        "input.0.meta.colour": "blue", "input.0.meta.first": "1", "input.0.meta.second": "2", "input.0.meta.study": "7",
    }  # fmt: skip
    told = {name: answer.meta(name) for name in ("colour", "first", "second", "third", "study")}
    assert told == {"colour": "blue", "first": "again", "second": "2", "third": "3", "study": "7"}


def test_large_data_arrives_complete(pipes: Pipes, on: str) -> None:
    size = MEGABYTES << 20
    pipes.rule(pipes.step("flood", on=on, bytes=str(size)), pipes.step(java=True), pipes.step())
    answer = pipes.owner.get("c/o", keep=False)
    expected = hashlib.md5(bytes(range(256)) * (size // 256), usedforsecurity=False).hexdigest()
    assert (answer.status, answer.size, answer.md5, answer.is_broken) == (
        200,
        size,
        expected,
        False,
    )


def test_a_rule_applies_to_erasure_coded_objects(pipes: Pipes) -> None:
    """Read from many fragments and written to them: more than one segment of 1 MiB."""
    content = CONTENT * 200
    assert pipes.owner.put("ec", b"", {"X-Storage-Policy": "ec21"}).status in (201, 202)
    pipes.rule(
        pipes.step("upper", set_first="1"),
        pipes.step(java=True, set_second="2"),
        method="PUT",
        container="ec",
    )
    assert pipes.owner.put("ec/o", content).status == 201
    pipes.rule(pipes.step(java=True), pipes.step(set_third="3"), container="ec")
    answer = pipes.owner.get("ec/o")
    assert (answer.status, answer.is_broken, answer.body) == (200, False, content.upper()), answer
    assert answer.headers["X-Storlet-Ran-On"] == "proxy,proxy"
    assert [answer.meta(name) for name in ("first", "second", "third")] == ["1", "2", "3"]


@pytest.mark.parametrize("method", ["PUT", "COPY"])
def test_the_stored_object_went_through_all_steps(pipes: Pipes, method: str) -> None:
    pipes.rule(pipes.step("upper", set_first="1"), pipes.step(set_second="2"), method=method)
    answer = send(pipes, method)
    assert (answer.status, answer.headers["X-Storlet-Rule"]) == (201, "piped"), answer
    pipes.owner.delete("storlet_rules/rules.yaml")
    path = "c/new" if method == "PUT" else "d/copy"
    stored = pipes.owner.get(path)
    assert (stored.body, stored.meta("first"), stored.meta("second")) == (CONTENT.upper(), "1", "2")
    assert pipes.owner.delete(path).status == 204


def test_usage_of_all_steps_adds_up(pipes: Pipes) -> None:
    pipes.rule(pipes.step("upper", on="object"), pipes.step("burn", seconds="0.2"), method="COPY")
    answer = send(pipes, "COPY")
    used = dict(part.split("=") for part in answer.headers["X-Storlet-Usage"].split(";"))
    assert float(used["cpu"]) > 0.2
    assert (used["in"], used["out"]) == (str(len(CONTENT)), "5")
    pipes.owner.delete("d/copy")


def test_under_a_mandatory_rule_only_metadata_of_the_steps_leaves(pipes: Pipes) -> None:
    steps = pipes.step(set_first="1", on="object"), pipes.step("describe", set_second="2")
    pipes.rule(*steps, mandatory=True)
    answer = pipes.owner.get("c/o")
    assert (answer.meta("first"), answer.meta("second"), answer.meta("study")) == ("1", "2", None)
    assert "input.0.meta.study" not in answer.text
    assert answer.headers["Content-Type"] == "application/octet-stream"
    pipes.rule(
        *steps, mandatory=True, **{"pass": {"metadata": ["study"], "headers": ["content-type"]}}
    )
    answer = pipes.owner.get("c/o")
    assert (answer.meta("study"), answer.meta("colour"), answer.headers["Content-Type"]) == (
        "7",
        None,
        "text/csv",
    )
    assert "input.0.meta.study" in answer.text


def test_the_clients_own_storlet_runs_last(pipes: Pipes) -> None:
    pipes.rule(pipes.step("upper"), mandatory=True, explicit="after")
    answer = pipes.owner.get(
        "c/o", {"X-Run-Storlet": pipes.java}, query={"do": "identity", "set-own": "1"}
    )
    assert (answer.status, answer.body, answer.meta("own")) == (200, CONTENT.upper(), "1"), answer


# --- failures


@pytest.mark.parametrize(("method", "step", "how"), FAILURES)
def test_a_step_that_fails_at_once_fails_the_request(
    pipes: Pipes, method: str, step: int, how: str
) -> None:
    steps = [pipes.step(), pipes.step(java=True), pipes.step()]
    steps[step - 1] = pipes.step("fail", how=how)
    pipes.rule(*steps, method=method)
    answer = send(pipes, method)
    assert (answer.status, answer.error, answer.headers["X-Storlet-Rule"]) == (
        422,
        "storlet.failed",
        "piped",
    ), answer
    assert f"step {step} of 3 ({pipes.python})" in answer.text
    assert nothing_is_stored(pipes)


@pytest.mark.parametrize(("method", "step", "how"), [row for row in FAILURES if row[1] < STEPS[-1]])
def test_a_step_that_fails_late_never_gives_a_complete_result(
    pipes: Pipes, method: str, step: int, how: str
) -> None:
    steps = [pipes.step(), pipes.step(), pipes.step(java=True)]
    steps[step - 1] = pipes.step("fail", how=how, after="3000000", pause="0.5")
    pipes.rule(*steps, method=method)
    answer = send(pipes, method)
    if method == "GET":
        assert (answer.status, answer.is_broken) == (200, True)
    else:
        assert (answer.status, answer.error) == (422, "storlet.failed"), answer
        assert f"step {step} of 3" in answer.text
    assert nothing_is_stored(pipes)


def test_a_step_that_reads_nothing_does_not_hide_the_outcome_of_the_others(pipes: Pipes) -> None:
    pipes.rule(pipes.step("flood", bytes="3000000"), pipes.step("version"))
    answer = pipes.owner.get("c/o")
    assert (answer.status, answer.body, answer.is_broken) == (200, b"1", False)
    pipes.rule(pipes.step("fail", after="3000000"), pipes.step("version"), method="COPY")
    answer = send(pipes, "COPY")
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert "step 1 of 2" in answer.text
    assert nothing_is_stored(pipes)


def test_a_step_without_its_storlet_is_not_reported_as_a_missing_object(pipes: Pipes) -> None:
    pipes.rule(pipes.step(), pipes.step())
    source = pipes.owner.get(f"storlet/{pipes.python}")
    declared = {
        key: value
        for key, value in source.headers.items()
        if key.startswith("X-Object-Meta-Storlet-")
    }
    assert pipes.owner.delete(f"storlet/{pipes.python}").status == 204
    try:
        answer = pipes.owner.get("c/o")
        assert (answer.status, answer.error) == (422, "storlet.not_found"), answer
    finally:
        assert pipes.owner.put(f"storlet/{pipes.python}", source.body, declared).status == 201


def test_a_disconnect_of_the_client_ends_all_steps(
    pipes: Pipes, description: dict[str, Any]
) -> None:
    pipes.rule(
        pipes.step("flood", on="object", bytes=str(1 << 40)), pipes.step(java=True), pipes.step()
    )
    connection, response = pipes.owner.open("GET", "c/o")
    assert response.status == 200
    invocation = response.headers["X-Storlet-Invocation"]
    response.read(1 << 20)
    response.close()
    connection.close()
    # A short pipeline of the same workers shows that nothing of the endless one still runs in them.
    pipes.rule(pipes.step("upper"), pipes.step(java=True))
    began = time.monotonic()
    assert retry_until(lambda: pipes.owner.get("c/o").body == CONTENT.upper())
    assert time.monotonic() - began < 10
    assert invocation


# --- many at once


def test_many_pipelines_at_once_all_end(pipes: Pipes, on: str) -> None:
    pipes.rule(pipes.step("upper", on=on), pipes.step(java=True), pipes.step())
    # A quarter of the pipelines begin while others run or end.
    with concurrent.futures.ThreadPoolExecutor(48) as pool:
        answers = list(pool.map(lambda _: pipes.owner.get("c/o"), range(64)))
    refused = [answer for answer in answers if answer.status != 200]
    assert all(
        answer.status in (429, 503) and answer.headers["Retry-After"] for answer in refused
    ), refused
    assert all(answer.body == CONTENT.upper() for answer in answers if answer.status == 200)
    assert len(refused) < len(answers) // 2
