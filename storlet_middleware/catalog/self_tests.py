"""The test cases of a bundle: read from it, and compared with the outcome of a run.

A case is what ``[[tests]]`` of ``storlet.toml`` declares: inputs, parameters, and the output,
metadata or error that is expected.  :mod:`~storlet_middleware.catalog.upload_check` runs them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from storlet_middleware import child
from storlet_middleware.bundle import manifest
from storlet_middleware.catalog import self_tests_process
from storlet_middleware.concurrency import WaitExpired
from storlet_middleware.errors import InternalError, NodeBusy, RegistrationCheckFailed

_CPU_SECONDS: Final = 10
#: Differences of a case that are shown, and characters of all of them and of one line of output.
_MOST: Final = 5
_TEXT: Final = 2000
_SHOWN: Final = 120
OK: Final = "ok"


@dataclass(frozen=True)
class Case:
    """One case.

    :param outputs: the expected outputs from the first one on, each with the name of its file; any
        content will do for others.
    :param output_count: the number of outputs of the run.
    :param secrets: the values of the run's secrets.
    """

    name: str
    inputs: tuple[bytes, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[tuple[str, bytes], ...] = ()
    output_count: int = 1
    metadata: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Outcome:
    """The outcome of the run of a case.

    :param outputs: those that the case expects, or the beginning of each: one byte more than that.
    :param waited_seconds: the wait for a slot of the node.
    """

    code: str = OK
    message: str = ""
    detail: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[bytes, ...] = ()
    waited_seconds: float = 0.0


def cases_of(packed: BinaryIO) -> list[Case]:
    """The cases that the check runs, of a verified bundle.

    :raises RegistrationCheckFailed: their files are not in the bundle.
    """
    try:
        status, said = child.run(self_tests_process.__name__, packed, _CPU_SECONDS)
    except WaitExpired:
        raise NodeBusy("reading the test cases of the bundle exceeded its deadline") from None
    if status:
        raise InternalError(f"reading the test cases of a bundle ended with {status}")
    head, _, rest = said.partition(b"\n")
    described = json.loads(head)
    files, at = {}, 0
    for path, size in described["files"]:
        files[path] = rest[at : at + size]
        at += size
    least = described["outputs"]
    return [_case(row, files, least) for row in described["cases"]]


def _case(row: Mapping[str, Any], files: Mapping[str, bytes], least_outputs: int) -> Case:
    outputs = manifest.outputs_of(row)
    try:
        return Case(
            name=row["name"],
            inputs=tuple(files[path] for path in manifest.inputs_of(row)),
            parameters={
                name: manifest.text_of(value) for name, value in row.get("parameters", {}).items()
            },
            outputs=tuple((path, files[path]) for path in outputs),
            output_count=max(least_outputs, len(outputs)),
            metadata=row.get("metadata", {}),
            error=row.get("error", ""),
            secrets=manifest.secrets_of(row),
        )
    except KeyError as error:
        raise RegistrationCheckFailed(
            f"test case {row['name']!r}: the bundle has no file {error}: build it again with"
            " storlet build; nothing was changed"
        ) from None


def differences(case: Case, got: Outcome) -> str:
    """The differences from the expectation, cut; empty if the case passed."""
    return _cut("; ".join(itertools.islice(_differences(case, got), _MOST)), _TEXT)


def _differences(case: Case, got: Outcome) -> Iterator[str]:
    if got.code != (case.error or OK):
        wanted = f"want {case.error}, got " if case.error else ""
        yield f"{wanted}{got.code}: {got.message}".rstrip(": ")
        return
    if not case.error:
        for (name, expected), output in zip(case.outputs, got.outputs, strict=True):
            if output != expected:
                yield _difference(expected, output, name)
    for name, value in case.metadata.items():
        found = got.metadata.get(name)
        if found != value:
            has = "there is none" if found is None else f"got {_shown(found)}"
            yield f"metadata {name}: want {_shown(value)}, {has}"


def _difference(wanted: bytes, got: bytes, name: str) -> str:
    """Where two contents differ first, and the two lines there."""
    at = _common(wanted, got)
    begin = wanted.rfind(b"\n", 0, at) + 1
    line = wanted.count(b"\n", 0, at) + 1
    lines = [
        _shown(each[begin : begin + 4 * _SHOWN].split(b"\n", 1)[0].decode("utf-8", "replace"))
        if at < len(each)
        else "the end"
        for each in (wanted, got)
    ]
    where = f"the output differs from {name} at byte {at}, line {line}"
    return f"{where}: want {lines[0]}, got {lines[1]}"


def _common(one: bytes, other: bytes) -> int:
    """The length of the common beginning; halves, so that it takes no loop over all bytes."""
    least, most = 0, min(len(one), len(other))
    views = memoryview(one), memoryview(other)
    while least < most:
        middle = (least + most + 1) // 2
        if views[0][least:middle] == views[1][least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _shown(text: str) -> str:
    return repr(_cut(text, _SHOWN))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
