"""Plays the transcripts of services to a worker: its requests, the store's replies, the outcome."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol import framing
from tests.conformance.daemon_harness import (
    PATIENCE_SECONDS,
    REPOSITORY,
    Code,
    HostSandbox,
    InputPipe,
    Run,
    Storlet,
)

CODE = Code(REPOSITORY / "tests/functional/storlets", "asker.Asker", "asker.py")
TRANSCRIPTS = Path(__file__).parent / "transcripts" / "services.json"


@pytest.fixture(scope="module")
def storlet() -> Iterator[Storlet]:
    """The storlet of the functional tests, which uses its services as a parameter says."""
    with tempfile.TemporaryDirectory() as folder, HostSandbox(Path(folder)) as sandbox:
        yield sandbox.load(CODE)


@pytest.mark.parametrize(
    "case", json.loads(TRANSCRIPTS.read_text("utf-8")), ids=lambda case: case["name"]
)
def test_requests_and_their_outcome_match_the_transcript(
    storlet: Storlet, case: dict[str, Any]
) -> None:
    with Run(storlet.connect(), [InputPipe(b"")]) as run:
        store = run.serve("read", "list", "write", "delete", "call")
        run.send({"ask": json.dumps([case["ask"]])})
        for step in case["store"]:
            play(store, step)
        result = run.finish()
        store.close()
    assert result.done.is_ok, result.done
    [outcome] = json.loads(result.output)
    # The text of an exception is the language's own.
    expected = case["outcome"]
    assert outcome[: len(expected)] == expected


def take_input(store: socket.socket, reply: dict[str, Any], expected: str) -> None:
    """Send the end of a stream, and compare what is written to it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE_SECONDS)
        framing.send_bytes(store, framing.encode_fields(reply), [theirs.fileno()])
        theirs.close()
        data = b""
        while piece := ours.recv(65536):
            data += piece
    content = expected.encode()
    assert data == len(content).to_bytes(4, "big") + content + bytes(4)


def play(store: socket.socket, step: dict[str, Any]) -> None:
    """Compare one request, and send its replies; the stream goes with the first."""
    received = framing.receive(store)
    assert received is not None
    assert received.fields == step["request"]
    for number, reply in enumerate(step["replies"]):
        fds: list[int] = []
        if reply["type"] == "feeding":
            take_input(store, reply, step["input"])
            continue
        if "stream" in step and not number:
            fd = os.memfd_create("stream")
            os.write(fd, step["stream"].encode())
            os.lseek(fd, 0, os.SEEK_SET)
            fds.append(fd)
        framing.send_bytes(store, framing.encode_fields(reply), fds)
        for fd in fds:
            os.close(fd)
