"""Failing storlets: the error code names the cause, no short result looks complete, nothing runs
twice."""

from __future__ import annotations

import json

import pytest

from tests.support.accounts import unique
from tests.support.http import Client
from tests.support.storlets import SOURCES, Tool, Toolbox, declaration


def test_a_storlet_that_raises_before_output_is_422_and_runs_once(
    each_tool: Tool, plain: str
) -> None:
    key, word = unique("raise"), unique("word")
    answer = each_tool.get(plain, "fail", count=key, word=word)
    assert (answer.status, answer.error, answer.is_broken) == (422, "storlet.failed", False)
    assert answer.headers["X-Storlet-Ran-On"] == each_tool.placement
    assert "X-Storlet-Invocation" in answer.headers
    assert each_tool.count(plain, key) == 1


def test_the_traceback_is_for_the_owner_of_the_storlet_only(
    tool: Tool, owner: Client, users: dict[str, Client], container: str, plain: str,
    shared_storlets: None,
) -> None:  # fmt: skip
    word = unique("word")
    assert word in tool.get(plain, "fail", word=word).text
    told = tool.get(plain, "fail", {"Accept": "application/json"}, word=word)
    assert told.status == 422
    assert word in json.dumps(json.loads(told.body))
    assert owner.post(container, {"X-Container-Read": "test2:tester2"}).status == 204
    stranger = Tool(users["test2:tester2"].on(owner.account), tool.storlet, tool.placement)
    refused = stranger.get(plain, "fail", word=word)
    assert (refused.status, refused.error) == (422, "storlet.failed")
    assert word not in refused.text
    assert "Traceback" not in refused.text


@pytest.mark.parametrize("how", ["raise", "exit"])
def test_a_failure_after_half_the_output_breaks_the_connection(
    each_tool: Tool, plain: str, how: str
) -> None:
    key = unique("half")
    answer = each_tool.get(plain, "fail", count=key, after="3000000", how=how, pause="0.5")
    assert (answer.status, answer.is_broken) == (200, True)
    assert set(answer.body) <= {ord("x")}
    assert len(answer.body) <= 3_000_000
    assert each_tool.count(plain, key) == 1


@pytest.mark.parametrize("how", ["raise", "exit"])
def test_a_little_output_and_then_a_failure_is_never_a_success(
    tool: Tool, plain: str, how: str
) -> None:
    answer = tool.get(plain, "fail", after="10", how=how)
    assert answer.status == 422 or answer.is_broken, answer
    if answer.status == 422:
        assert answer.error == "storlet.failed"


def test_an_exit_without_success_is_a_failure(tool: Tool, plain: str) -> None:
    answer = tool.get(plain, "fail", how="exit")
    assert (answer.status, answer.error) == (422, "storlet.failed")


def test_an_unchecked_exception_of_java_is_a_failure_too(
    owner: Client, storlet_names: dict[str, str], plain: str
) -> None:
    answer = Tool(owner, storlet_names["java"]).get(plain, "fail", how="runtime")
    assert (answer.status, answer.error) == (422, "storlet.failed")


def test_after_a_failure_the_next_run_succeeds(tool: Tool, plain: str, content: bytes) -> None:
    for how in ("raise", "exit"):
        tool.get(plain, "fail", how=how)
        answer = tool.get(plain)
        assert (answer.status, answer.body) == (200, content)


def test_storlet_failures_do_not_count_against_the_nodes(
    tool: Tool, plain: str, content: bytes
) -> None:
    for _ in range(15):
        assert tool.get(plain, "fail").status == 422
    assert tool.client.get(plain).body == content
    assert tool.get(plain).headers["X-Storlet-Ran-On"] == tool.placement


def test_too_much_metadata_exceeds_a_limit(anywhere: Tool, plain: str) -> None:
    answer = anywhere.client.get(
        plain, anywhere.headers({"X-Storlet-Parameter-1": "set-Long:" + "x" * 4100})
    )
    assert (answer.status, answer.error) == (422, "storlet.limit.metadata")


# --- code that does not load ----------------------------------------------------------------------

UNLOADABLE = {
    "syntax": (b"class Nosuch(:\n", "Nosuch"),
    "import": (b"import nosuchmodule\nclass X:\n    pass\n", "X"),
    "class": (b"class Other:\n    pass\n", "Missing"),
    "exit": (b"import os\nos._exit(3)\n", "X"),
}


@pytest.mark.parametrize("fault", UNLOADABLE)
def test_python_code_that_does_not_load_is_reported(
    anywhere: Tool, owner: Client, plain: str, fault: str
) -> None:
    stem = unique(f"load_{fault}")
    source, name = UNLOADABLE[fault]
    assert (
        owner.put(f"storlet/{stem}.py", source, declaration("python", f"{stem}.{name}")).status
        == 201
    )
    answer = Tool(owner, f"{stem}.py", anywhere.placement).get(plain)
    assert (answer.status, answer.error) == (422, "storlet.load"), answer


@pytest.mark.parametrize("fault", ["jar", "class"])
def test_java_code_that_does_not_load_is_reported(
    anywhere: Tool, owner: Client, toolbox: Toolbox, plain: str, fault: str
) -> None:
    name = unique(f"load_{fault}") + "-1.0.jar"
    jar = b"not a jar" if fault == "jar" else toolbox.java.jar("functional", {"version.txt": "1"})
    assert owner.put(f"storlet/{name}", jar, declaration("java", "functional.Nosuch")).status == 201
    answer = Tool(owner, name, anywhere.placement).get(plain)
    assert (answer.status, answer.error) == (422, "storlet.load"), answer


def test_fixed_code_runs_at_once(
    anywhere: Tool, owner: Client, toolbox: Toolbox, plain: str
) -> None:
    stem = unique("mended")
    headers = declaration("python", f"{stem}.Multitool")
    assert owner.put(f"storlet/{stem}.py", b"syntax error", headers).status == 201
    tool = Tool(owner, f"{stem}.py", anywhere.placement)
    assert tool.get(plain).status == 422
    assert (
        owner.put(f"storlet/{stem}.py", (SOURCES / "multitool.py").read_bytes(), headers).status
        == 201
    )
    assert tool.get(plain).status == 200
