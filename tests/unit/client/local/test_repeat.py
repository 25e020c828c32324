"""Repetitions here; those in a real sandbox are in the functional tests."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast, final

import pytest

from storlet_client.errors import NotRepeatable, Refused
from storlet_client.local import repeat
from storlet_client.local.run import Input, Outcome
from storlet_client.operations import BundleVersion, Info, Invocation, Storlet
from storlet_client.replay import Ran
from storlet_client.storlets import Storlets

RECORD: dict[str, Any] = {
    "id": "tx1-1", "object": "c/o", "storlets": [{"name": "tool", "hash": "5f", "sha256": "ab"}],
}  # fmt: skip
CALL = Invocation("tool@3", "c/o", {"a": "b"}, if_match="e1", if_version="5f")


class _Stream:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.headers = {
            "x-object-meta-my-colour": "red",
            "x-object-meta-storlet-main": "no",
            "etag": "e1",
        }

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


def test_a_changed_input_is_named(output: BinaryIO) -> None:
    with pytest.raises(NotRepeatable, match="c/o has changed since the run"):
        here(output, Invocation("tool@3", "c/o", {}, if_match="old", if_version="5f"))
    further = {"resources": ("c/p", "c/q"), "if_resources": ("e2", "old")}
    with pytest.raises(NotRepeatable, match="c/q has changed since the run"):
        here(output, Invocation("tool@3", "c/o", {}, if_version="5f", **further))
    with pytest.raises(NotRepeatable, match="not kept any more"):
        here(output, sha256="ef")


def test_runs_of_another_kind_are_named(output: BinaryIO) -> None:
    call = Invocation("std:text", "c/o", {}, byte_range="0-1")
    with pytest.raises(NotRepeatable, match=r"std:text is of the library.*a part of its object"):
        here(output, call, storlets=[{"name": "std:text"}])


class PlainAccount(Account):
    """One with a plain storlet and its dependencies; the cluster says whether it is that one."""

    def __init__(self, stored: Storlet, *, is_current: bool = True) -> None:
        super().__init__()
        self._stored = stored
        self._refusal = "" if is_current else "X-Storlet-If-Version: storlet up.py is another one"
        self.compared: list[str] = []

    def show(self, name: str) -> Storlet:
        assert name == "up.py"
        return self._stored

    def info(self) -> Info:
        return Info.of({"storlet_dependency": "needed"})

    @contextmanager
    def download(self, name: str) -> Iterator[Any]:
        yield _Stream(f"code of {name}".encode())

    @contextmanager
    def read(self, path: str, if_match: str = "") -> Iterator[Any]:
        if not path.startswith("needed/"):
            with super().read(path, if_match) as stream:
                yield stream
            return
        stream = _Stream(path.encode())
        if path == "needed/tool":
            stream.headers = {"x-object-meta-storlet-dependency-permissions": "0o700"}
        yield stream

    @contextmanager
    def run(self, name: str, path: str, *, if_match: str, if_version: str) -> Iterator[Any]:
        assert (name, path, if_match) == ("up.py", "c/o", "0")
        self.compared.append(if_version)
        yield from ()
        raise Refused("GET c/o", 412, {}, self._refusal)


PLAIN = Invocation("up.py", "c/o", {"a": "b"}, if_match="e1", if_version="5f")
STORED = Storlet(
    "up.py", "python", "up.Up", 1, "", "e3", ("lib.py", "tool"),
    {"memory": "64M", "language-version": "3.11", "records": "all"},
)  # fmt: skip


def plainly(output: BinaryIO, account: PlainAccount, call: Invocation = PLAIN) -> bytes:
    record = {**RECORD, "storlets": [{"name": "up.py", "hash": "5f"}]}
    repeat.here(cast(Storlets, account), record, call, output)
    output.seek(0)
    return output.read()


def test_a_plain_file_runs_with_its_dependencies_and_declarations(
    output: BinaryIO, tmp_path: Path
) -> None:
    account = PlainAccount(STORED)
    bundle = tmp_path / "read"
    bundle.write_bytes(plainly(output, account).rpartition(b"|")[0])
    with zipfile.ZipFile(bundle) as zipped:
        modes = {each.filename: each.external_attr >> 16 & 0o777 for each in zipped.infolist()}
        document = json.loads(zipped.read("storlet.json"))
        assert zipped.read("code/up.py") == b"code of up.py"
        assert zipped.read("code/tool") == b"needed/tool"
    assert (modes["code/up.py"], modes["code/lib.py"], modes["code/tool"]) == (0o644, 0o644, 0o755)
    assert (document["main"], document["language"]) == ("up.Up", "python")
    assert (document["limits"], document["language-version"]) == ({"memory": "64M"}, "3.11")
    assert account.compared == ["5f"]


def test_a_plain_file_that_was_replaced_does_not_run(output: BinaryIO) -> None:
    with pytest.raises(NotRepeatable, match=r"up\.py has changed since the run"):
        plainly(output, PlainAccount(STORED, is_current=False))
    account = PlainAccount(STORED, is_current=False)
    plainly(output, account, Invocation("up.py", "c/o", {}))
    assert account.compared == []


@pytest.mark.parametrize("name", ["../lib.py", "..", "a/b"])
def test_a_name_that_is_none_of_a_file_is_refused(output: BinaryIO, name: str) -> None:
    stored = replace(STORED, dependencies=(name,))
    with pytest.raises(NotRepeatable, match=f"{name}' is no name of a file: replay it on the"):
        plainly(output, PlainAccount(stored))


def test_a_bundle_in_place_of_the_plain_file_is_named(output: BinaryIO) -> None:
    with pytest.raises(NotRepeatable, match="a bundle now"):
        plainly(output, PlainAccount(replace(STORED, name="up.py.storlet")))
