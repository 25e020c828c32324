"""Every combination of a proxy and an object node of different versions, with a made-up version 2.

The node's part is here: which description it reads, and whether it sends frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from swift.common.swob import Request

from storlet_middleware.backend import frames
from storlet_middleware.backend.refusals import Refusal, refusal_of
from storlet_middleware.object_server.node import ObjectNode
from storlet_middleware.proxy.execution.result import RemoteResult
from tests.unit.middleware.backend.test_invocation_header import FIRST_RELEASE, NOW, description
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.object_nodes import VERSION, ObjectServer
from tests.unit.middleware.support import Node, make_config


class NodeOfVersion2(ObjectNode):
    """A node whose encoder writes frames of version 2 only."""

    frame_version = "2"


NEXT_BOTH = {"frames": ["1", "2"]}
NEXT_ONLY = {"frames": ["2"]}
NEXT_DESCRIPTION = {"version": "2", "frames": ["1", "2"], "storlet": {"of": "another form"}}
NEXT_KEYS = {"urgency": {"level": 3}, "frames": ["3", "1"]}


@pytest.fixture
def send(node: Node, short_dir: Path) -> Iterator[Callable[..., Any]]:
    """Sends a description to an object node of a class; returns its answer."""
    path = short_dir / "o.data"
    path.write_bytes(b"hello")
    (node.code_dir / VERSION.key).mkdir()
    logger = Logger()

    def send(of_node: type[ObjectNode], changes: dict[str, Any], **headers: str) -> Any:
        at = of_node(ObjectServer(path), make_config(short_dir), logger)
        given = description(**changes) | {
            key.replace("_", "-"): text for key, text in headers.items()
        }
        return Request.blank("/sda/1/AUTH_test/c/o", headers=given).get_response(at)

    yield send
    node.workers.settle()
    assert "ERROR" not in logger.text


@pytest.mark.parametrize("changes", [FIRST_RELEASE, NOW, NEXT_BOTH, NEXT_KEYS])
def test_a_node_sends_frames_to_a_proxy_that_decodes_its_version(
    send: Callable[..., Any], changes: dict[str, Any]
) -> None:
    answer = send(ObjectNode, changes)
    assert answer.headers["X-Backend-Storlet-Run"] == "1"
    assert refusal_of(answer.headers) is None
    result = RemoteResult(answer)
    result.first()
    assert b"".join(result.chunks()) == b"HELLO"
    result.close()


@pytest.mark.parametrize("changes", [NEXT_BOTH, NEXT_ONLY])
def test_a_node_of_version_2_sends_frames_to_a_proxy_that_decodes_them(
    send: Callable[..., Any], changes: dict[str, Any]
) -> None:
    answer = send(NodeOfVersion2, changes)
    assert answer.headers["X-Backend-Storlet-Run"] == "2"
    assert not frames.can_decode(answer.headers["X-Backend-Storlet-Run"])
    assert answer.body


@pytest.mark.parametrize(
    ("of_node", "changes"),
    [
        (ObjectNode, NEXT_ONLY),
        (ObjectNode, NEXT_DESCRIPTION),
        (ObjectNode, {"version": None, "frames": []}),
        (NodeOfVersion2, FIRST_RELEASE),
        (NodeOfVersion2, NOW),
        (NodeOfVersion2, NEXT_DESCRIPTION),
    ],
)
def test_a_node_and_a_proxy_without_a_common_version_use_plain_data(
    send: Callable[..., Any], node: Node, of_node: type[ObjectNode], changes: dict[str, Any]
) -> None:
    answer = send(of_node, changes)
    assert (answer.status_int, answer.body, answer.headers["Etag"]) == (200, b"hello", "source")
    assert "X-Backend-Storlet-Run" not in answer.headers
    assert refusal_of(answer.headers) is Refusal.VERSION
    assert node.workers.runs == []


def test_a_resume_is_refused_with_any_frames_that_the_proxy_decodes(
    send: Callable[..., Any],
) -> None:
    for of_node in (ObjectNode, NodeOfVersion2):
        answer = send(of_node, NOW, Range="bytes=100-")
        assert (answer.status_int, refusal_of(answer.headers)) == (409, Refusal.RESUME)
