"""The typed messages: what is accepted, and that all faults are reported together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol import framing, messages
from storlet_daemon.protocol.messages import Done, Input, Invoke, Limits, Log, Output

PROTOCOL = (Path(framing.__file__).parent / "PROTOCOL.rst").read_text("utf-8")
VERSION = "0f" * 32
TABLES = [
    messages.INVOCATION_REQUEST,
    messages.INVOCATION_EVENTS,
    messages.INVOCATION_END,
    messages.WORKER_REPORTS,
    messages.CONTROL_COMMANDS,
    messages.CONTROL_REPORTS,
    messages.NODE_REQUESTS,
    messages.NODE_ANSWERS,
]
EXAMPLES: list[tuple[messages.Message, messages.Kinds, int]] = [
    (
        Invoke(
            "tx-1",
            (Input(0, {"a": "b"}, 1, 2), Input(1)),
            Output(2),
            {"p": "q"},
            Log(3, 100),
            Limits(50),
        ),
        messages.INVOCATION_REQUEST,
        4,
    ),
    (Invoke("tx-1", (Input(0),), Output(1)), messages.INVOCATION_REQUEST, 2),
    (messages.Started(), messages.INVOCATION_EVENTS, 0),
    (messages.Metadata({"größe": "☃"}), messages.INVOCATION_EVENTS, 0),
    (Done(messages.OK, usage=messages.Usage(0.5, 1000)), messages.INVOCATION_EVENTS, 0),
    (Done.error(messages.FAILED, "why", "where"), messages.INVOCATION_EVENTS, 0),
    (messages.Ready(), messages.WORKER_REPORTS, 0),
    (messages.LoadFailed("why", "where"), messages.WORKER_REPORTS, 0),
    (messages.Begin("tx-1"), messages.WORKER_REPORTS, 1),
    (messages.Taken(), messages.INVOCATION_END, 0),
    (messages.End(recycle=True, failed=True), messages.WORKER_REPORTS, 0),
    (messages.Hello(1, (VERSION,)), messages.CONTROL_REPORTS, 0),
    (
        messages.Load(1, VERSION, VERSION, "python", "a.B", "a.py", "a.py", "3.11", ("x.sh",)),
        messages.CONTROL_COMMANDS,
        1,
    ),
    (messages.Loaded(1), messages.CONTROL_REPORTS, 0),
    (messages.Unload(2, VERSION), messages.CONTROL_COMMANDS, 0),
    (messages.Unloaded(2), messages.CONTROL_REPORTS, 0),
    (messages.AskStatus(3), messages.CONTROL_COMMANDS, 0),
    (
        messages.GroupStatus(3, (messages.Group(VERSION, "a.py", 2, 1, 9, 0, 0.5),)),
        messages.CONTROL_REPORTS,
        0,
    ),
    (messages.Refused(4, "why"), messages.CONTROL_REPORTS, 0),
    (messages.Assign(5, 200001, 200001), messages.CONTROL_COMMANDS, 0),
    (messages.Assigned(5), messages.CONTROL_REPORTS, 0),
    (messages.Inspect(6), messages.CONTROL_COMMANDS, 0),
    (messages.Inspected(6, {"/proc/self/status": "Seccomp: 2"}), messages.CONTROL_REPORTS, 0),
    (messages.Check(7), messages.CONTROL_COMMANDS, 1),
    (messages.Checked(7, {"network": ""}), messages.CONTROL_REPORTS, 0),
    (
        messages.Place(VERSION, 12, messages.Resources(1 << 20, 0.5, 10, 64, 1 << 20)),
        messages.CONTROL_REPORTS,
        0,
    ),
    (messages.Placed(12, "g-0f"), messages.CONTROL_COMMANDS, 0),
    (messages.Prepare("AUTH_a", "up.py"), messages.NODE_REQUESTS, 0),
    (messages.Prepared("/code"), messages.NODE_ANSWERS, 0),
    (
        messages.Acquire(
            "AUTH_a", messages.Storlet("a.py", VERSION, VERSION, "python", "a.B", "a.py")
        ),
        messages.NODE_REQUESTS,
        0,
    ),
    (messages.Acquired("/socket"), messages.NODE_ANSWERS, 0),
    (messages.AskNodeStatus(), messages.NODE_REQUESTS, 0),
    (messages.AskSelfTest(), messages.NODE_REQUESTS, 0),
    (
        messages.NodeStatus(
            (messages.Sandbox("AUTH_a", "k", "up"),),
            {"image": {"languages": ["python"]}},
            (messages.SelfTest("user", "fail", {"network": "up"}, 9),),
        ),
        messages.NODE_ANSWERS,
        0,
    ),
    (messages.NodeRefused("node.busy", "why", 5), messages.NODE_ANSWERS, 0),
]


def faults_of(
    fields: dict[str, Any],
    kinds: messages.Kinds = messages.INVOCATION_REQUEST,
    descriptors: int = 2,
) -> list[str]:
    with pytest.raises(messages.ProtocolError) as caught:
        messages.parse(fields, kinds, descriptors)
    return list(caught.value.faults)


@pytest.mark.parametrize(
    ("message", "kinds", "descriptors"), EXAMPLES, ids=lambda value: getattr(value, "TYPE", "")
)
def test_a_parsed_message_equals_the_encoded_one(
    message: messages.Message, kinds: messages.Kinds, descriptors: int
) -> None:
    fields = framing.decode(framing.encode(message))
    assert messages.parse(fields, kinds, descriptors) == message
    assert (fields.get("v") == messages.VERSION) is message.IS_VERSIONED


def test_every_message_has_an_example_here() -> None:
    assert {kind for table in TABLES for kind in table.values()} == {
        type(message) for message, _, _ in EXAMPLES
    }


def test_every_message_type_is_specified() -> None:
    types = {kind for table in TABLES for kind in table}
    assert {
        kind
        for kind in types
        if f'"type":"{kind}"' not in PROTOCOL and f"``{kind}``" not in PROTOCOL
    } <= {"status"}
    for code in messages.SANDBOX_CODES:
        assert f"``{code}``" in PROTOCOL


def test_the_examples_of_the_specification_are_messages() -> None:
    flat = re.sub(r"\s*\n\s*", " ", PROTOCOL)
    invoke = re.search(r'(\{"v":1, "type":"invoke".*?"limits":\{[^}]*\}\})', flat)
    load = re.search(r'(\{"v":1, "type":"load", .*?"scratch_bytes":\d+\}\})', flat)
    assert invoke is not None
    assert load is not None
    messages.parse(json.loads(invoke[1]), messages.INVOCATION_REQUEST, 3)
    messages.parse(
        json.loads(load[1].replace("<64 hexadecimal digits>", VERSION)),
        messages.CONTROL_COMMANDS,
        1,
    )


def test_all_faults_are_reported_together() -> None:
    fields = {
        "v": 1,
        "type": "invoke",
        "inputs": [{"fd": "x"}, 3],
        "output": {"fd": True},
        "log": {},
        "parameters": {"a": 1},
    }
    assert faults_of(fields) == [
        "id is missing",
        "inputs[0].fd is not a whole number from 0",
        "inputs[1] is not an object",
        "output.fd is not a whole number from 0",
        "parameters.a is not text",
        "log.fd is missing",
        "log.limit is missing",
    ]


def test_a_key_whose_value_is_null_is_absent() -> None:
    fields = {
        "v": 1,
        "type": "invoke",
        "id": "x",
        "inputs": [{"fd": 0, "start": None}],
        "output": {"fd": 1},
        "log": None,
    }
    assert messages.parse(fields, messages.INVOCATION_REQUEST, 2) == Invoke(
        "x", (Input(0),), Output(1)
    )


def test_unknown_keys_are_ignored() -> None:
    assert (
        messages.parse({"type": "started", "when": "now"}, messages.INVOCATION_EVENTS)
        == messages.Started()
    )


@pytest.mark.parametrize("version", [None, 0, 2, "1", True, 1.0])
def test_an_unsupported_version_is_the_only_fault(version: object) -> None:
    fields = {"v": version, "type": "invoke"}
    assert faults_of(fields) == [f"protocol version {version!r} is not supported here, only 1"]


def test_a_done_that_is_an_error_needs_a_code_and_a_message() -> None:
    assert faults_of({"type": "done", "outcome": "error"}, messages.INVOCATION_EVENTS, 0)
    assert faults_of(
        {"type": "done", "outcome": "error", "code": "x", "message": "y"},
        messages.INVOCATION_EVENTS,
        0,
    )
    assert faults_of({"type": "done", "outcome": "perhaps"}, messages.INVOCATION_EVENTS, 0)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a\0b"])
def test_names_of_files_stay_in_their_folder(name: str) -> None:
    fields = messages.Load(1, VERSION, VERSION, "python", "a.B", "a.py", "a.py").fields()
    assert "file is not a file name" in faults_of(
        {**fields, "file": name}, messages.CONTROL_COMMANDS, 1
    )
    assert "dependencies[0] is not a file name" in faults_of(
        {**fields, "dependencies": [name]}, messages.CONTROL_COMMANDS, 1
    )


def test_a_version_that_could_be_a_path_is_refused() -> None:
    assert faults_of(
        {"type": "unload", "request": 1, "version": "../" * 20}, messages.CONTROL_COMMANDS, 0
    )


def test_an_error_text_is_one_line_of_bounded_length() -> None:
    done = Done.error(messages.FAILED, "a\n\tb\x1b[31m" + "x" * 1000, "é" * 20000)
    assert done.message is not None
    assert done.traceback is not None
    assert done.message.startswith("a b [31mxxx")
    assert len(done.message) == messages.SUMMARY_MAX
    assert len(done.traceback.encode()) <= messages.TRACEBACK_MAX
    assert "[...]" in done.traceback
    assert done.traceback[0] == done.traceback[-1] == "é"


def test_a_short_traceback_is_left_alone() -> None:
    assert messages.cut_middle("a\nb") == "a\nb"
