"""Repetitions here; those in a real sandbox are in the functional tests."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast, final

import pytest

from storlet_client.errors import NotRepeatable, Refused
from storlet_client.local import repeat
from storlet_client.local.run import Input, Outcome
from storlet_client.operations import BundleVersion, Invocation
from storlet_client.replay import Ran
from storlet_client.storlets import Storlets

RECORD: dict[str, Any] = {
    "id": "tx1-1", "object": "c/o", "storlets": [{"name": "tool", "hash": "5f", "sha256": "ab"}],
}  # fmt: skip
CALL = Invocation("tool@3", "c/o", {"a": "b"}, if_match="e1", if_version="5f")


class _Stream:
    headers: ClassVar = {
        "x-object-meta-my-colour": "red",
        "x-object-meta-storlet-main": "no",
        "etag": "e1",
    }

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __iter__(self) -> Iterator[bytes]:
        yield self._data


class Account:
    def __init__(self, sha256: str = "ab") -> None:
        self._sha256 = sha256

    def versions(self, name: str) -> list[BundleVersion]:
        assert name == "tool"
        return [
            BundleVersion(4, "2", "cd", 1, "", True), BundleVersion(3, "1", self._sha256, 1, "", False),
        ]  # fmt: skip

    @contextmanager
    def download_version(self, name: str, version: BundleVersion) -> Iterator[Any]:
        yield _Stream(f"bundle {version.number}".encode())

    @contextmanager
    def read(self, path: str, if_match: str = "") -> Iterator[Any]:
        if if_match == "old":
            raise Refused("GET c/o", 412, {}, "")
        yield _Stream(f"object {path} {if_match}".encode())


@final
class Node:
    outcome = Outcome("ok")

    def __init__(self, output: int, _otherwise: str = "") -> None:
        self._output = output

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, bundle: Path, inputs: list[Input], parameters: Any, limits: Any) -> Outcome:
        assert inputs[0].metadata == {"My-Colour": "red"}
        read = [bundle.read_bytes(), *(each.path.read_bytes() for each in inputs)]
        with Path(f"/dev/fd/{self._output}").open("wb") as out:
            out.write(b"|".join(read))
        return self.outcome


@pytest.fixture(autouse=True)
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeat, "LocalNode", Node)


@pytest.fixture
def output(tmp_path: Path) -> Iterator[BinaryIO]:
    with (tmp_path / "out").open("w+b") as file:
        yield file


def here(output: BinaryIO, call: Invocation = CALL, sha256: str = "ab", **changes: Any) -> Ran:
    account = cast(Storlets, Account(sha256))
    return repeat.here(account, {**RECORD, **changes}, call, output)


def test_the_version_that_ran_reads_the_recorded_object(output: BinaryIO) -> None:
    ran = here(output)
    target = io.BytesIO()
    repeat.keep(output, target)
    assert target.getvalue() == b"bundle 3|object c/o e1"
    assert (ran.code, ran.size) == ("ok", len(target.getvalue()))


def test_any_version_is_the_current_one(output: BinaryIO) -> None:
    here(output, Invocation("tool", "c/o", {}, resources=("c/p",)))
    output.seek(0)
    assert output.read() == b"bundle 4|object c/o |object c/p "


def test_a_failure_has_its_code(output: BinaryIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "outcome", Outcome("storlet.failed", "no"))
    assert here(output) == Ran("storlet.failed", "no")


def test_what_has_changed_is_named(output: BinaryIO) -> None:
    with pytest.raises(NotRepeatable, match="c/o has changed since the run"):
        here(output, Invocation("tool@3", "c/o", {}, if_match="old", if_version="5f"))
    further = {"resources": ("c/p", "c/q"), "if_resources": ("e2", "old")}
    with pytest.raises(NotRepeatable, match="c/q has changed since the run"):
        here(output, Invocation("tool@3", "c/o", {}, if_version="5f", **further))
    with pytest.raises(NotRepeatable, match="not kept any more"):
        here(output, sha256="ef")


def test_runs_of_another_kind_are_named(output: BinaryIO) -> None:
    with pytest.raises(NotRepeatable, match=r"up\.py is a plain file.*a part of its object"):
        here(output, Invocation("up.py", "c/o", {}, byte_range="0-1"), storlets=[{"name": "up.py"}])
