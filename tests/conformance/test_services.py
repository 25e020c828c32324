"""Plays the transcripts of services to a worker: its requests, the store's replies, the outcome."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from storlet_client.builder.jars import JAVAC
from storlet_daemon.protocol import framing, messages
from tests.conformance.conftest import new_sandbox, public_folder
from tests.conformance.daemon_harness import (
    PATIENCE_SECONDS,
    REPOSITORY,
    Code,
    InputPipe,
    Result,
    Run,
    Storlet,
)
from tests.support.native import asker

SOURCES = REPOSITORY / "tests/functional/storlets"
TRANSCRIPTS = Path(__file__).parent / "transcripts" / "services.json"
CASES = json.loads(TRANSCRIPTS.read_text("utf-8"))
LANGUAGES = ("python", "java", "native")


@pytest.fixture(scope="module", params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    """Every language that has services."""
    return str(request.param)


@pytest.fixture(scope="module")
def storlet(language: str, request: pytest.FixtureRequest) -> Iterator[Storlet]:
    """The storlet of the functional tests, which uses its services as a parameter says."""
    with public_folder("st-asker-") as folder:
        code = Code(SOURCES, "asker.Asker", "asker.py")
        if language == "java":
            make_jar(request.getfixturevalue("java_dir"), folder / "asking-1.0.jar")
            code = Code(folder, "asking.Asker", "asking-1.0.jar", "java")
        if language == "native":
            (folder / "asker.so").write_bytes(asker())
            code = Code(folder, "asker.so:asker", "asker.so", "native")
        with new_sandbox(language, request) as sandbox:
            # One process: a test leaves threads in it.
            yield sandbox.load(code, workers_max=1)
        shutil.rmtree(sandbox.folder)


def make_jar(java_dir: Path, jar: Path) -> None:
    classes = jar.parent / "classes"
    source = str(SOURCES / "java/asking/Asker.java")
    options = ["-nowarn", "-cp", f"{java_dir}/*", "-d", str(classes)]
    subprocess.run([*JAVAC, *options, source], check=True)
    subprocess.run(["jar", "cf", str(jar), "-C", str(classes), "."], check=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_requests_and_their_outcome_match_the_transcript(
    storlet: Storlet, case: dict[str, Any]
) -> None:
    taken: list[socket.socket] = []
    with asked(storlet, case["ask"]) as (run, store):
        for step in case["store"]:
            play(store, step, taken)
        [outcome] = outcomes(run)
    for each in taken:
        each.close()
    # The text of an exception is the language's own.
    expected = case["outcome"]
    assert outcome[: len(expected)] == expected


@contextlib.contextmanager
def asked(storlet: Storlet, *ask: Any) -> Iterator[tuple[Run, socket.socket]]:
    """A run, and the store's end of its services."""
    with (
        Run(storlet.connect(), [InputPipe(b"")]) as run,
        run.serve("read", "list", "write", "delete", "call") as store,
    ):
        run.send({"ask": json.dumps(ask)})
        yield run, store


def outcomes(run: Run) -> list[Any]:
    result = run.finish()
    assert result.done.is_ok, result.done
    found: list[Any] = json.loads(result.output)
    return found


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


def play(store: socket.socket, step: dict[str, Any], taken: list[socket.socket]) -> None:
    """Compare one request, and send its replies; the stream goes with the first.

    :param taken: the streams of created objects, of which ``written`` is the content of the last.
    """
    received = framing.receive(store)
    assert received is not None
    assert received.fields == step["request"]
    if "written" in step:
        content = step["written"].encode()
        with taken[-1].makefile("rb") as stream:
            assert stream.read() == content
    for number, reply in enumerate(step["replies"]):
        fds: list[int] = []
        if reply["type"] == "feeding":
            take_input(store, reply, step["input"])
            continue
        if reply["type"] == "created":
            ours, theirs = socket.socketpair()
            ours.settimeout(PATIENCE_SECONDS)
            taken.append(ours)
            fds.append(theirs.detach())
        if "stream" in step and not number:
            fd = os.memfd_create("stream")
            os.write(fd, step["stream"].encode())
            os.lseek(fd, 0, os.SEEK_SET)
            fds.append(fd)
        framing.send_bytes(store, framing.encode_fields(reply), fds)
        for fd in fds:
            os.close(fd)


GARBAGE = {
    "no JSON": b"garbage",
    "no object": b"[]",
    "no type": b'{"id":1}',
    "another type": b'{"type":"invoke","id":1}',
    "no id": b'{"type":"described"}',
    "an id of text": b'{"type":"described","id":"1"}',
    "facts of text": b'{"type":"described","id":1,"facts":"none"}',
    "a negative size": b'{"type":"described","id":1,"facts":{"size":-1}}',
    "metadata of numbers": b'{"type":"described","id":1,"facts":{"metadata":{"k":1}}}',
    "a stream without a descriptor": b'{"type":"opened","id":1}',
    "a failure without a code": b'{"type":"failed","id":1,"code":"","status":403,"message":"no"}',
    "a failure without a status": b'{"type":"failed","id":1,"code":"a.b","message":"no"}',
    "an end without a count": b'{"type":"ended","id":1}',
    "deep nesting": b'{"type":"described","id":1,"x":' + b"[" * 20 + b"]" * 20 + b"}",
    "a long message": b'{"type":"described","id":1,"x":"' + b"x" * 70_000 + b'"}',
}
VALID = (
    b'{"type":"described","id":1,"facts":{"size":0,"metadata":{"k":"v"},"etag":"e"}}',
    b'{"type":"opened","id":1,"facts":{"size":5},"has_more":false}',
    b'{"type":"failed","id":1,"code":"access.rule","status":403,"message":"no"}',
    b'{"type":"ended","id":1,"bytes":5}',
    b'{"type":"performed","id":1}',
)


@pytest.mark.parametrize("reply", GARBAGE.values(), ids=GARBAGE)
def test_a_reply_that_is_no_message_fails_the_run(storlet: Storlet, reply: bytes) -> None:
    result = answered(storlet, reply)
    assert not result.done.is_ok
    assert result.done.code == messages.FAILED
    assert "signal" not in (result.done.message or "")


def test_a_reply_with_random_faults_never_ends_the_worker_otherwise(storlet: Storlet) -> None:
    """A fault may leave a valid reply: then the run has an outcome.

    Each error ends the worker, so a reply takes as long as the start of one.
    """
    for seed in range(settings().max_examples):
        chance = random.Random(seed)  # noqa: S311 - the same each time
        reply = mutated(chance.choice(VALID), chance)
        result = answered(storlet, reply, descriptors=chance.choice((0, 0, 1, 2)))
        text = (seed, reply, result.done)
        assert result.done.is_ok or result.done.code == messages.FAILED, text
        assert "signal" not in (result.done.message or ""), text
    assert json.loads(answered(storlet, VALID[0]).output)[0][0] == "ok"


def answered(storlet: Storlet, reply: bytes, descriptors: int = 0) -> Result:
    """A run that gets ``reply`` to its request, and then the end of the socket."""
    fds = [os.memfd_create("stream") for _ in range(descriptors)]
    with Run(storlet.connect(), [InputPipe(b"")]) as run:
        store = run.serve("read")
        run.send({"ask": json.dumps([["stat", "/c/o"]])})
        assert framing.receive(store) is not None
        framing.send_bytes(store, reply, fds)
        store.close()
        for fd in fds:
            os.close(fd)
        return run.finish()


def mutated(data: bytes, chance: random.Random) -> bytes:
    """``data`` with some bytes changed, removed, repeated or cut off."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made))
        kind = chance.randrange(5)
        if kind == 0:
            made[at] = chance.randrange(256)
        elif kind == 1 and len(made) > 1:
            del made[at]
        elif kind == 2:
            made[at:at] = made[at : at + chance.randint(1, 30)]
        elif kind == 3:
            made[at:at] = chance.choice((b"\0", b"{", b"[", b'"', b"\\u0000", b"\xff", b"-9" * 9))
        elif at:
            del made[at:]
    return bytes(made)


@pytest.mark.parametrize("language", ["java"], indirect=True)
def test_threads_that_a_run_leaves_reach_no_store(storlet: Storlet) -> None:
    """A Python worker with such threads is replaced."""
    with asked(storlet, ["sockets"]) as (run, store):
        [[_, before]] = outcomes(run)
    with asked(storlet, ["leave_threads", "/c/o"]) as (run, store):
        writing = [open_nothing(store) for _ in range(2)]
        requests = [receive(store) for _ in range(2)]
        assert sorted(each["path"] for each in requests) == ["/c/main", "/c/never"]
        [main] = [each["id"] for each in requests if each["path"] == "/c/main"]
        framing.send_bytes(store, framing.encode_fields({"type": "described", "id": main}))
        assert outcomes(run) == [["ok"]]
        for fd in writing:
            os.close(fd)
    with asked(storlet, ["left_threads"], ["stat", "/c/next"], ["sockets"]) as (run, store):
        request = receive(store)
        assert request["path"] == "/c/next"
        reply = {"type": "described", "id": request["id"], "facts": {"size": 7}}
        framing.send_bytes(store, framing.encode_fields(reply))
        (_, *found), stat, (_, after) = outcomes(run)
        store.setblocking(False)
        # Nothing but the end of the connection.
        assert framing.receive(store) is None
    assert len(found) == 7
    assert sorted({tuple(each[:2]) for each in found}) == [
        ("IllegalState", ""),
        ("Unavailable", "services.gone"),
    ]
    assert stat[1]["size"] == 7
    assert after == before


def receive(store: socket.socket) -> dict[str, Any]:
    received = framing.receive(store)
    assert received is not None
    return dict(received.fields)


def open_nothing(store: socket.socket) -> int:
    """Answer ``open`` with a stream that has no bytes yet; its writing end."""
    request = receive(store)
    assert request["type"] == "open"
    reading, writing = (end.detach() for end in socket.socketpair())
    reply = {"type": "opened", "id": request["id"], "facts": {"size": 5, "etag": "e"}}
    framing.send_bytes(store, framing.encode_fields(reply), [reading])
    os.close(reading)
    return writing
