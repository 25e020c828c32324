"""``storlet replay``: recorded runs again, on the cluster and here, compared with their records."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from storlet_client.cli.main import main
from storlet_client.errors import BrokenAnswer, NotThere, Refused
from storlet_client.login import Token
from storlet_client.operations import Manifest
from storlet_client.storlets import Storlets
from storlet_middleware import names
from tests.support.accounts import unique
from tests.support.bundles import bundle
from tests.support.cluster import Cluster
from tests.support.forking import Ended
from tests.support.http import Client
from tests.support.local_node import one_node
from tests.support.waiting import retry_until

SOURCE = b"""
class Tool:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        data = in_files[0].read()
        out_files[0].set_metadata({})
        if params["how"] == "fail":
            raise ValueError("on purpose")
        if params["how"] == "late":
            out_files[0].write(b"x" * (1 << 20))
            raise ValueError("after the first byte")
        out_files[0].write(VERSION + data + repr(len(in_files)).encode())
"""


def packed(version: bytes) -> bytes:
    code = {"tool.py": (b"VERSION = " + repr(version).encode() + SOURCE, 0o644)}
    kinds = {"how": {"type": "string", "default": "ok"}}
    return bundle("tool", code, main="tool.Tool", parameters=kinds, inputs={"min": 1, "max": 3})


@dataclass(frozen=True)
class Account:
    client: Client
    storlets: Storlets
    captured: pytest.CaptureFixture[str]

    def get(self, how: str, **more: Any) -> str:
        """The id of a run whose record is kept."""
        with self.storlets.run("tool", "samples/input", {"how": how}, **more) as stream:
            stream.read()
        return stream.invocation

    def failed(self, how: str) -> str:
        with pytest.raises(Refused) as caught:
            self.get(how)
        return caught.value.invocation

    def record(self, invocation: str) -> dict[str, Any]:
        query = f"storlet-runs&id={invocation}"
        answer = retry_until(lambda: _found(self.client.get("", query=query)), 20)
        assert answer, "no record"
        record: dict[str, Any] = json.loads(answer.body)
        return record

    def replay(self, invocation: str, *more: str) -> Ended:
        """The end of the command; it runs in this process."""
        self.record(invocation)
        login = ("--os-storage-url", self.client.storage_url, "--os-auth-token", self.client.token)
        self.captured.readouterr()
        code = main([*login, "replay", invocation, *more])
        return Ended(code, *self.captured.readouterr())


def _found(answer: Any) -> Any:
    return answer if answer.status == 200 else None


@pytest.fixture(scope="module")
def opened(users: dict[str, Client]) -> Iterator[tuple[Client, Storlets]]:
    """A new account that records all runs: its owner, and the owner's storlets."""
    client = users["admin:admin"].on(f"AUTH_{unique('replay')}")
    assert client.put("").status in {201, 202}
    with Storlets(Token(client.storage_url, client.token)) as storlets:
        storlets.enable()
        assert client.post("", headers={names.ACCOUNT_RECORDS: "all"}).status == 204
        yield client, storlets


@pytest.fixture(scope="module")
def node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with one_node(cluster, tmp_path_factory.mktemp("node") / "output"):
        yield


@pytest.fixture
def account(
    opened: tuple[Client, Storlets], node: None, capfd: pytest.CaptureFixture[str]
) -> Account:
    """The account with the first version of the storlet, and an object."""
    client, storlets = opened
    with contextlib.suppress(NotThere):
        storlets.delete("tool.storlet")
    storlets.deploy_bundle("tool", packed(b"one "))
    storlets.upload("samples/input", b"apple")
    return Account(client, storlets, capfd)


def test_a_record_has_what_a_repetition_needs(account: Account) -> None:
    more = {"byte_range": "0-2", "resources": ("samples/input",), "limits": {"Memory": "64M"}}
    record = account.record(account.get("ok", **more))
    assert record["parameters"] == {"how": "ok"}
    assert record["range"] == "bytes=0-2"
    assert record["resources"] == ["samples/input"]
    assert record["resource_etags"] == [record["etag"]]
    assert record["limits"] == {"Memory": 64 << 20}
    assert record["etag"] == hashlib.md5(b"apple", usedforsecurity=False).hexdigest()
    assert record["output_sha256"] == hashlib.sha256(b"one app2").hexdigest()
    assert record["storlets"][0]["sha256"] == hashlib.sha256(packed(b"one ")).hexdigest()


@pytest.mark.parametrize("where", [(), ("--local",)])
def test_a_run_is_repeated_with_its_version_and_compared(
    account: Account, where: tuple[str, ...], tmp_path: Path
) -> None:
    run, failed = account.get("ok"), account.failed("fail")
    account.storlets.deploy_bundle("tool", packed(b"two "))
    out = tmp_path / "out"
    done = account.replay(run, *where, "-o", str(out), "-f", "json")
    assert done.code == 0, done.out + done.err
    assert out.read_bytes() == b"one apple1"
    assert [row["same"] for row in json.loads(done.out)] == [True] * 3
    done = account.replay(failed, *where, "-f", "csv")
    assert done.code == 0, done.out + done.err
    assert "outcome,storlet.failed,storlet.failed,True" in done.out
    assert done.out.count("ValueError: on purpose") == 2


def test_a_run_of_the_library_is_repeated_on_the_cluster(account: Account) -> None:
    given = {"do": "wc"}
    with account.storlets.run("std:text", "samples/input", given) as stream:
        stream.read()
    done = account.replay(stream.invocation, "-f", "json")
    assert done.code == 0, done.out + done.err
    assert [row["same"] for row in json.loads(done.out)] == [True] * 3
    done = account.replay(stream.invocation, "--local")
    assert done.code == 4
    assert "std:text is of the library" in done.err


@pytest.mark.parametrize("where", [(), ("--local",)])
def test_a_changed_object_is_not_read_unless_any_version_will_do(
    account: Account, where: tuple[str, ...]
) -> None:
    run = account.get("ok")
    account.storlets.upload("samples/input", b"pear")
    done = account.replay(run, *where)
    assert (done.code, done.out) == (4, "")
    assert "samples/input has changed since the run; --any-version" in done.err
    done = account.replay(run, *where, "--any-version", "-f", "json")
    assert done.code == 1, done.err
    rows = {row["fact"]: row["same"] for row in json.loads(done.out)}
    assert rows == {"outcome": True, "bytes": False, "sha256": False}


def test_a_version_that_was_removed_is_not_replaced_unless_any_version_will_do(
    account: Account,
) -> None:
    run = account.get("ok")
    account.storlets.delete("tool.storlet")
    account.storlets.deploy_bundle("tool", packed(b"two "))
    for where in ((), ("--local",)):
        done = account.replay(run, *where)
        assert (done.code, done.out) == (4, "")
        assert "is not kept any more; --any-version" in done.err
    assert account.replay(run, "--any-version").code == 1


def deploy_plain(storlets: Storlets, version: bytes) -> None:
    """A plain file with a program beside it, and a limit."""
    source = b"import os, subprocess\n" + SOURCE.replace(b"VERSION", b"said()")
    source += b"""
def said():
    return subprocess.check_output([os.path.join(os.path.dirname(__file__), "tool.sh")])
"""
    program = b"#!/bin/sh\necho " + version + b" $(ulimit -n)\n"
    manifest = Manifest("plain.Tool", "python", ["tool.sh"], limits={"open-files": "77"})
    storlets.deploy("plain.py", source, manifest, {"tool.sh": (program, "0700")}, check=False)


def test_a_plain_storlet_is_repeated_until_it_is_replaced(account: Account) -> None:
    deploy_plain(account.storlets, b"one")
    with account.storlets.run("plain.py", "samples/input", {"how": "ok"}) as stream:
        assert stream.read() == b"one 77\napple1"
    run = stream.invocation
    for where in ((), ("--local",)):
        done = account.replay(run, *where, "-f", "json")
        assert done.code == 0, done.out + done.err
        assert [row["same"] for row in json.loads(done.out)] == [True] * 3
    # Of the version, too: only its dependency is another one.
    deploy_plain(account.storlets, b"two")
    for where in ((), ("--local",)):
        done = account.replay(run, *where)
        assert (done.code, done.out) == (4, "")
        assert "plain.py has changed since the run" in done.err
        assert "--any-version repeats the run with the current one" in done.err
        done = account.replay(run, *where, "--any-version", "-f", "csv")
        assert done.code == 1, done.out + done.err
        assert "bytes,13,13,True" in done.out
    account.storlets.delete("plain.py")
    for where in ((), ("--local",), ("--local", "--any-version")):
        done = account.replay(run, *where)
        assert (done.code, done.out) == (4, "")
        assert "there is no storlet plain.py" in done.err


def test_a_failure_after_the_first_byte_is_compared_by_its_record(account: Account) -> None:
    late = account.storlets.run("tool", "samples/input", {"how": "late"})
    with pytest.raises(BrokenAnswer), late as stream:
        stream.read()
    done = account.replay(stream.invocation, "-f", "csv")
    assert done.code == 0, done.out + done.err
    assert "outcome,storlet.failed,storlet.failed,True" in done.out


def test_further_inputs_are_repeated_unless_one_has_changed(account: Account) -> None:
    further = "samples/50%, a b"
    account.storlets.upload(further, b"pear")
    run = account.get("ok", resources=(further, "samples/input"))
    for where in ((), ("--local",)):
        done = account.replay(run, *where, "-f", "csv")
        assert done.code == 0, done.out + done.err
        assert "bytes,10,10,True" in done.out
    account.storlets.upload(further, b"plum")
    for where in ((), ("--local",)):
        done = account.replay(run, *where)
        assert (done.code, done.out) == (4, "")
        assert f"{further} has changed since the run; --any-version" in done.err
    assert account.replay(run, "--any-version").code == 0


def test_runs_that_cannot_be_repeated_are_refused_by_name(account: Account) -> None:
    put = account.storlets.put("tool", "samples/put", b"x", {"how": "ok"})
    rules = b"version: 1\nrules:\n- name: made\n  when: {method: GET, container: samples}\n  run: tool\n"
    for run, reason in (
        (put.headers["x-storlet-invocation"], "it is a PUT"),
        (_run_of_rule(account, rules), "rule made decided the run"),
    ):
        done = account.replay(run)
        assert (done.code, done.out) == (4, ""), done.err
        assert reason in done.err
    assert account.storlets.invocation(put.headers["x-storlet-invocation"])["method"] == "PUT"


def _run_of_rule(account: Account, rules: bytes) -> str:
    account.storlets.put_rules(rules, accept_warnings=True)
    try:
        answer = account.client.get("samples/input")
    finally:
        account.storlets.delete_rules()
    assert answer.status == 200, answer
    return str(answer.headers["x-storlet-invocation"])


def test_another_version_than_the_required_one_is_refused(account: Account) -> None:
    headers = {"X-Run-Storlet": "tool", names.IF_VERSION: "0" * 64}
    answer = account.client.get("samples/input", headers=headers)
    assert answer.status == 412
    assert b"X-Storlet-If-Version: storlet tool is another version" in answer.body
    answer = account.client.get("samples/input", headers={**headers, names.IF_VERSION: "newest"})
    assert (answer.status, b"want the 64 hex digits" in answer.body) == (400, True)
