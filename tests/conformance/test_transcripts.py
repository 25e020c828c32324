"""Plays each transcript of ``transcripts/`` to each language's worker and compares the events.

All transcripts of a language share one sandbox, which must be intact after each: the next
invocation succeeds, and the supervisor has no more descriptors than before.
"""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storlet_daemon.protocol import messages
from tests.conformance import daemon_harness
from tests.conformance.conftest import new_sandbox
from tests.conformance.daemon_harness import Code, HostSandbox, InputFile, InputPipe, Result, Run

TRANSCRIPTS = Path(__file__).parent / "transcripts"


def cases(name: str) -> list[Any]:
    """The transcripts of a file, each with its name as the test's."""
    return [
        pytest.param(case, id=case["name"])
        for case in json.loads((TRANSCRIPTS / f"{name}.json").read_text("utf-8"))
    ]


@pytest.fixture
def storlet(
    language: str,
    code: Callable[[str], Code],
    shared_sandboxes: dict[str, tuple[HostSandbox, daemon_harness.Storlet]],
    request: pytest.FixtureRequest,
) -> Iterator[daemon_harness.Storlet]:
    if language not in shared_sandboxes:
        sandbox = new_sandbox(language, request)
        sandbox.__enter__()
        loaded = sandbox.load(code("probe"), workers_max=2)
        loaded.run()
        shared_sandboxes[language] = (sandbox, loaded)
    sandbox, loaded = shared_sandboxes[language]
    daemon_harness.until(lambda: sandbox.groups()[loaded.code.version].busy == 0)
    assert loaded.run(b"before").output == b"before"
    yield loaded
    assert loaded.run(b"after").output == b"after"
    # Control, epoll, signals, listening socket and 0 to 2; per worker a channel, an output and
    # perhaps a connection.
    daemon_harness.until(lambda: sandbox.descriptors() <= 8 + 3 * 2)


@pytest.mark.parametrize("case", cases("runs"))
def test_a_run_matches_its_transcript(
    storlet: daemon_harness.Storlet, case: dict[str, Any]
) -> None:
    result = play(storlet, case)
    if "code" not in case:
        assert result.done.is_ok, result.done
        assert result.done.usage is not None
        assert result.done.usage.peak_memory_bytes > 1_000_000
    check(result, case)


@pytest.mark.parametrize("case", cases("failures"))
def test_a_failure_matches_its_transcript(
    storlet: daemon_harness.Storlet, case: dict[str, Any]
) -> None:
    result = play(storlet, case)
    if "code" in case:
        assert not result.done.is_ok
    check(result, case)


@pytest.mark.parametrize("case", cases("garbage"))
def test_garbage_is_answered_and_the_connection_closed(
    storlet: daemon_harness.Storlet, case: dict[str, Any]
) -> None:
    with storlet.connect() as connection:
        readers = send_raw(connection, case)
        run = Run(connection, [])
        done = run.event()
        assert isinstance(done, messages.Done)
        assert (done.outcome, done.code) == ("error", "protocol")
        assert run.event() is None
        run.close()
    # The holder of the other ends sees that all of them were closed.
    for reading in readers:
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.read() == b""


def play(storlet: daemon_harness.Storlet, case: dict[str, Any]) -> Result:
    inputs = []
    for given in case.get("inputs", [{"text": ""}]):
        kind = InputFile if given.get("file") else InputPipe
        inputs.append(
            kind(
                given["text"].encode(), given.get("metadata"), given.get("start"), given.get("end")
            )
        )
    with storlet.start(
        *inputs,
        log_limit=case.get("log_limit", 0),
        metadata_bytes=case.get("metadata_bytes", 4096),
        further=len(case.get("further", [])),
        **case.get("parameters", {}),
    ) as run:
        return run.finish()


def check(result: Result, case: dict[str, Any]) -> None:
    if "events" in case:
        assert result.types == case["events"]
    if "metadata" in case:
        assert result.metadata == case["metadata"]
    if "output" in case:
        assert result.output.decode() == case["output"]
    for number, expected in enumerate(case.get("further", []), 1):
        output = result.outputs[number].decode()
        assert output == expected.get("output", output)
        assert len(output) == expected.get("output_size", len(output))
        assert result.metadata_of(number) == expected["metadata"]
    if "code" in case:
        assert result.done.code == case["code"], result.done
        message = result.done.message or ""
        assert message.isprintable()
        assert 0 < len(message) <= messages.SUMMARY_MAX
    for part, text in (
        ("message", result.done.message),
        ("traceback", result.done.traceback),
        ("log", result.log.decode()),
    ):
        for expected in case.get(part, []):
            assert expected in (text or ""), (part, text)
    assert len(result.log) <= case.get("log_max", 10000)
    assert b"\0" not in result.log


def send_raw(connection: socket.socket, case: dict[str, Any]) -> list[int]:
    """Send the case's bytes with the write ends of its pipes; return their read ends."""
    raw = case["raw"]
    if "json" in raw:
        data = json.dumps(raw["json"]).encode()
    elif "hex" in raw:
        data = bytes.fromhex(raw["hex"])
    elif "repeat" in raw:
        data = raw["repeat"].encode() * raw["times"]
    else:
        data = raw["text"].encode()
    pipes = [os.pipe() for _ in range(case["descriptors"])]
    rights = array.array("i", [writing for _, writing in pipes])
    connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if pipes else [])
    for writing in rights:
        os.close(writing)
    return [reading for reading, _ in pipes]
