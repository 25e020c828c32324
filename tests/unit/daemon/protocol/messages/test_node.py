"""The requests of the filter and the answers of the node daemon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from storlet_daemon.protocol import messages
from tests.unit.daemon.protocol.messages.parsing import (
    VERSION,
    Example,
    assert_complete,
    assert_round_trip,
    faults_of,
)

ROOT = Path(__file__).resolve().parents[5]
EXAMPLES: list[Example] = [
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


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example[0].TYPE)
def test_an_encoded_message_is_parsed_back(example: Example) -> None:
    assert_round_trip(example)


def test_every_message_has_an_example() -> None:
    assert_complete(EXAMPLES, messages.NODE_REQUESTS, messages.NODE_ANSWERS)


def test_an_unknown_code_of_a_refusal_is_a_fault() -> None:
    for code in messages.NODE_CODES:
        assert_round_trip((messages.NodeRefused(code, "why"), messages.NODE_ANSWERS, 0))
    fields = {"type": "error", "code": "node.tired", "message": "why"}
    assert "code is none of" in faults_of(fields, messages.NODE_ANSWERS, 0)[0]


@pytest.mark.parametrize("key", ["version", "code", "file"])
def test_the_identifiers_of_a_storlet_cannot_be_paths(key: str) -> None:
    storlet = messages.Storlet("a.py", VERSION, VERSION, "python", "a.B", "a.py")
    fields = messages.Acquire("AUTH_a", storlet).fields()
    given = {**fields, "storlet": {**fields["storlet"], key: "../../etc/passwd"}}
    (fault,) = faults_of(given, messages.NODE_REQUESTS, 0)
    assert fault.startswith(f"storlet.{key} is not")


def test_a_sandbox_imports_the_messages_of_the_node_on_first_use_only() -> None:
    code = (
        "import sys; from storlet_daemon.protocol import messages; node = messages.__name__ + '.node'"
        "; print(node in sys.modules, messages.Prepare.TYPE, node in sys.modules)"
    )
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "prepare", "True"]
    with pytest.raises(AttributeError, match="has no attribute 'Unknown'"):
        messages.Unknown  # type: ignore[attr-defined]  # noqa: B018  the access is the test
