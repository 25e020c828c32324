"""Repetitions of recorded runs; those of real runs are in the functional tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from storlet_client import replay
from storlet_client.errors import BrokenAnswer, NotRepeatable, NotThere, Refused
from storlet_client.operations import BundleVersion, Invocation
from storlet_client.replay import Ran
from storlet_client.storlets import Storlets

RECORD: dict[str, Any] = {
    "id": "tx1-1", "method": "GET", "object": "c/o", "etag": "e1", "code": "ok", "outcome": "ok",
    "storlets": [{"name": "tool", "hash": "5f" * 32, "sha256": "ab" * 32}],
    "parameters": {"a": "b"}, "limits": {"Memory": 67108864, "Timeout-Idle": 0.5}, "bytes_out": 3,
}  # fmt: skip


class Account:
    """The part of a client that repetitions use."""

    def __init__(self, answer: Any = b"abc", kept: str = "ab" * 32) -> None:
        self._answer = answer
        self._kept = kept
        self.ran: list[tuple[Any, ...]] = []
        self.records = [NotThere("not yet"), {"code": "storlet.failed", "message": "late"}]

    def versions(self, name: str) -> list[BundleVersion]:
        return [BundleVersion(4, "1", "cd" * 32, 1, "", True), BundleVersion(3, "1", self._kept, 1, "", False)]  # fmt: skip

    @contextmanager
    def run(self, *arguments: Any, **more: Any) -> Iterator[Any]:
        self.ran.append((*arguments, more))
        if isinstance(self._answer, Refused):
            raise self._answer
        yield _Stream(self._answer)

    def invocation(self, invocation: str) -> Any:
        found = self.records.pop(0) if len(self.records) > 1 else self.records[0]
        if isinstance(found, Exception):
            raise found
        return found


class _Stream:
    invocation = "tx2-1"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        yield b"x" if isinstance(self._answer, Exception) else self._answer
        if isinstance(self._answer, Exception):
            raise self._answer


def refused(status: int, code: str, text: str) -> Refused:
    return Refused("GET c/o", status, {"x-storlet-error": code} if code else {}, text)


def repeat(account: Account, record: dict[str, Any] = RECORD, *, any_version: bool = False) -> Ran:
    storlets = cast(Storlets, account)
    invocation = replay.invocation_of(storlets, record, any_version=any_version)
    return replay.on_cluster(storlets, record, invocation, None)


def test_the_recorded_version_reads_the_recorded_object() -> None:
    account = Account()
    assert repeat(account).sha256.startswith("ba7816bf")
    name, path, parameters, more = account.ran[0]
    assert (name, path, parameters) == ("tool@3", "c/o", {"a": "b"})
    assert (more["if_match"], more["if_version"]) == ("e1", "5f" * 32)
    assert more["limits"] == {"Memory": "67108864", "Timeout-Idle": "0.5"}


def test_any_version_is_the_current_one_with_the_object_as_it_is() -> None:
    account = Account()
    repeat(account, any_version=True)
    name, *_, more = account.ran[0]
    assert (name, more["if_match"], more["if_version"]) == ("tool", "", "")


def test_a_version_of_the_name_or_a_plain_storlet_needs_no_list_of_versions() -> None:
    for row in (
        {"name": "tool@2", "hash": "1", "sha256": "2"},
        {"name": "up.py", "hash": "1"},
        {"name": "std:grep", "hash": "1", "sha256": "2"},
    ):
        account = Account()
        repeat(account, {**RECORD, "storlets": [row]})
        assert account.ran[0][0] == row["name"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (refused(412, "", ""), "c/o has changed since the run; --any-version"),
        (refused(412, "precondition.failed", "X-Storlet-If-Version: no"), "is not kept any more"),
        (
            refused(412, "precondition.failed", "X-Storlet-If-Resources: c/p q has another ETag"),
            "tx1-1: c/p q has changed since the run; --any-version",
        ),
    ],
)
def test_a_change_between_the_requests_is_noticed(answer: Refused, text: str) -> None:
    with pytest.raises(NotRepeatable, match=text):
        repeat(Account(answer))


def test_a_version_that_is_not_kept_is_not_replaced() -> None:
    with pytest.raises(NotRepeatable, match="the version of tool that ran is not kept any more"):
        repeat(Account(kept="ef" * 32))


def test_a_failure_of_the_storlet_is_its_outcome_and_others_are_not() -> None:
    failed = refused(422, "storlet.failed", "ValueError: no\n\nTraceback")
    assert repeat(Account(failed)) == Ran("storlet.failed", "ValueError: no")
    for answer in (refused(503, "node.busy", "later"), refused(404, "", "")):
        with pytest.raises(Refused):
            repeat(Account(answer))


def test_a_late_failure_is_that_of_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_POLL_SECONDS", 0.0)
    account = Account(BrokenAnswer("broken"))
    assert repeat(account) == Ran("storlet.failed", "late")
    monkeypatch.setattr(replay, "_RECORD_SECONDS", 0.0)
    with pytest.raises(BrokenAnswer, match="there is no record of it"):
        repeat(account)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rule": "made"}, "rule made decided the run"),
        ({"storlets": []}, "its record hides the storlet from you"),
        ({"storlets": RECORD["storlets"] * 2}, "it is a pipeline of 2 storlets"),
        ({"object": None}, "it read the outputs of other runs"),
        ({"service_operations": 1}, "it used services of the store"),
        ({"outputs": ["c/p"]}, "it has further outputs"),
        ({"method": "PUT"}, "it is a PUT"),
        ({"outcome": "refused", "code": "bad_request"}, "was refused (bad_request)"),
        ({"outcome": "cancelled"}, "its client left"),
        ({"parameters": None}, "its record has no parameters"),
        ({"etag": None}, "no ETag of its object"),
        ({"resources": ["c/p"]}, "further inputs"),
    ],
)
def test_runs_that_cannot_be_repeated_are_named(changes: dict[str, Any], text: str) -> None:
    changed = {**RECORD, **changes}
    record = {key: value for key, value in changed.items() if value is not None}
    (fault,) = replay.faults_of(record, any_version=False)
    assert text in fault
    is_of_change = "--any-version" in fault
    assert bool(replay.faults_of(record, any_version=True)) is not is_of_change
    assert replay.faults_of(RECORD, any_version=False) == []


def test_outcome_size_and_hash_are_compared() -> None:
    record = {**RECORD, "output_sha256": "11"}
    rows = replay.compared(record, Ran("ok", "", 3, "22"))
    assert [(row.name, row.is_same) for row in rows] == [
        ("outcome", True), ("bytes", True), ("sha256", False),
    ]  # fmt: skip
    unknown = replay.compared(RECORD, Ran("ok", "", 3, "22"))
    assert [row.is_same for row in unknown] == [True, True, None]
    failed = replay.compared(RECORD, Ran("storlet.failed", "stalled for 3 s"))
    assert [(row.name, row.is_same) for row in failed] == [("outcome", False), ("message", None)]


def test_the_request_has_range_and_further_inputs() -> None:
    record = {**RECORD, "range": "bytes=0-1", "resources": ["c/p"], "resource_etags": ["e2"]}
    storlets = cast(Storlets, SimpleNamespace())
    invocation = replay.invocation_of(storlets, record, any_version=True)
    assert isinstance(invocation, Invocation)
    assert (invocation.byte_range, invocation.resources) == ("bytes=0-1", ["c/p"])
    assert invocation.if_resources == ()
    account = Account()
    repeat(account, record)
    assert account.ran[0][3]["if_resources"] == ["e2"]
    assert replay.faults_of(record, any_version=False) == []


@pytest.mark.parametrize(
    ("text", "is_current"),
    [("", True), ("X-Storlet-If-Version: storlet up.py is another version", False)],
)
def test_the_cluster_compares_a_version_without_a_run(text: str, *, is_current: bool) -> None:
    account = Account(refused(412, "precondition.failed", text))
    call = Invocation("up.py", "c/o", {"a": "b"}, if_match="e1", if_version="5f")
    assert replay.is_current(cast(Storlets, account), call) is is_current
    assert account.ran == [("up.py", "c/o", {"if_match": "0", "if_version": "5f"})]


def test_a_comparison_of_versions_that_fails_is_no_answer() -> None:
    call = Invocation("up.py", "c/o", {}, if_version="5f")
    with pytest.raises(Refused):
        replay.is_current(cast(Storlets, Account(refused(404, "", "no"))), call)
    with pytest.raises(BrokenAnswer, match="ignored If-Match"):
        replay.is_current(cast(Storlets, Account()), call)


def test_a_plain_storlet_that_was_replaced_is_named() -> None:
    text = "up.py has changed since the run, and only bundles have earlier versions; --any-version"
    assert text in str(replay.gone({"id": "tx1-1", "storlets": [{"name": "up.py", "hash": "5f"}]}))
