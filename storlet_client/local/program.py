"""One run of a native program here, with the descriptors and variables that it has in a sandbox."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FIRST_NUMBER = 3
_SPARE = 64
_METADATA_BYTES = 1 << 16


@dataclass(frozen=True)
class Ended:
    """The end of a program: why it failed, or an empty text; its log, and its metadata as JSON."""

    fault: str
    log: str
    metadata: bytes


def run(
    program: Path,
    arguments: Sequence[str],
    inputs: Sequence[tuple[Path, Mapping[str, str]]],
    outputs: Sequence[int],
    parameters: Mapping[str, str],
    secrets: Mapping[str, bytes] | None = None,
) -> Ended:
    """Run ``program`` on files with their metadata; it writes to the descriptors ``outputs``.

    :param secrets: those of the run, each of which fits into a pipe.
    :raises OSError: an input cannot be opened, or the program cannot be started.
    """
    opened = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path, _ in inputs]
    # Files, so that no program waits for this process, and no process that it leaves delays it.
    with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as written:
        try:
            # 0, 1, 2, further inputs, further outputs, metadata, secrets.
            given = [opened[0], outputs[0], log.fileno(), *opened[1:], *outputs[1:]]
            given.append(written.fileno())
            environment = _environment(inputs, len(outputs), parameters)
            for name, value in (secrets or {}).items():
                key = "STORLET_SECRET_FD_" + name.upper().replace("-", "_")
                environment[key] = str(len(given))
                opened.append(_pipe_with(value))
                given.append(opened[-1])
            status = _start(program, arguments, given, environment)
        finally:
            for number in opened:
                os.close(number)
        written.seek(0)
        metadata = written.read(_METADATA_BYTES)
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    return Ended(_fault(status, text), text, metadata)


def _environment(
    inputs: Sequence[tuple[Path, Mapping[str, str]]], outputs: int, parameters: Mapping[str, str]
) -> dict[str, str]:
    further = _FIRST_NUMBER + len(inputs) - 1
    facts: list[dict[str, Any]] = [
        {"fd": 0 if not index else _FIRST_NUMBER + index - 1, "metadata": dict(metadata)}
        for index, (_, metadata) in enumerate(inputs)
    ]
    return {
        **os.environ,
        **{f"STORLET_PARAM_{key}": value for key, value in parameters.items() if "=" not in key},
        "STORLET_PARAMETERS": json.dumps(dict(parameters), ensure_ascii=False),
        "STORLET_INPUTS": json.dumps(facts, ensure_ascii=False),
        "STORLET_OUTPUTS": json.dumps(
            [{"fd": 1}, *({"fd": further + number} for number in range(outputs - 1))]
        ),
        "STORLET_METADATA_FD": str(further + outputs - 1),
    }


def _pipe_with(value: bytes) -> int:
    """The reading end of a pipe that has ``value``."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(value)
    return reading


def _start(
    program: Path, arguments: Sequence[str], given: Sequence[int], environment: Mapping[str, str]
) -> int:
    """Run the program with ``given`` as its descriptors from 0 on; the status of its end."""
    # A source may have the number of a target, so all sources move to higher numbers first.
    moves = [(os.POSIX_SPAWN_DUP2, each, _SPARE + n) for n, each in enumerate(given)]
    places = [(os.POSIX_SPAWN_DUP2, _SPARE + n, n) for n in range(len(given))]
    closes = [(os.POSIX_SPAWN_CLOSE, _SPARE + n) for n in range(len(given))]
    words = [program.name, *arguments]
    pid = os.posix_spawn(
        str(program),
        words,
        environment,
        file_actions=[*moves, *places, *closes],
        setsigdef=[signal.SIGPIPE],
    )
    _, status = os.waitpid(pid, 0)
    return status


def _fault(status: int, log: str) -> str:
    if not status:
        return ""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        text = f"the program was killed by signal {number} ({signal.Signals(number).name})"
    else:
        text = f"the program exited with status {os.WEXITSTATUS(status)}"
    lines = log.split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{text}: {last}" if last else text
