"""The record of a run: its JSON, and the part of it that a caller sees."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_middleware import errors
from storlet_middleware.records.record import (
    LOG_BYTES,
    TABLE,
    Kind,
    Outcome,
    Record,
    Seen,
    StorletRef,
    Viewer,
    one_line,
    outcome_of,
    tail,
)
from tests.unit.middleware.records.made import record

FULL = record(
    parent="run-0", caller_id="u1", target="c/copy", outputs=("c/out",), rule="hide", undoes_rule=True,
    placement="object", why="default",
    node="n1", code="storlet.timeout.idle", message="too slow", failed_step=2, auth_seconds=0.001,
    queue_seconds=0.0, cold_start_seconds=0.5, code_seconds=0.1, sandbox_seconds=0.4,
    worker_seconds=0.01, first_byte_seconds=0.2, cpu_seconds=0.1,
    peak_memory_bytes=4096, bytes_in=0, bytes_out=7, service_operations=3, service_bytes_in=5,
    service_bytes_out=0, traceparent="00-1", traceback="T", log="L",
    parameters={"a": "b"}, limits={"Memory": 1}, range="bytes=0-1", resources=("c/o",), etag="e1",
    resource_etags=("e2",), output_sha256="00",
)  # fmt: skip


def test_every_field_is_a_row_and_every_row_is_in_the_json_of_a_full_record() -> None:
    assert [row.name for row in TABLE] == [field.name for field in dataclasses.fields(Record)]
    assert list(FULL.mapping()) == [row.name for row in TABLE]


def test_the_values_of_a_line_have_the_kinds_of_their_rows() -> None:
    line = FULL.as_line()
    assert line.endswith(b"\n")
    values = json.loads(line)
    types: dict[Kind, Any] = {
        Kind.TEXT: str, Kind.TIME: str, Kind.COUNT: int, Kind.BYTES: int, Kind.FLAG: bool,
        Kind.SECONDS: int | float, Kind.STORLETS: list, Kind.PATHS: list, Kind.BY_NAME: dict,
    }  # fmt: skip
    assert {row.name for row in TABLE if not isinstance(values[row.name], types[row.kind])} == set()
    assert values["time"] == "2026-11-23T19:00:00.000000Z"
    assert values["storlets"] == [{"name": "up.py", "hash": "5f" * 32}]
    assert (values["outcome"], values["bytes_in"]) == ("failed", 0)


def test_an_unknown_value_is_absent() -> None:
    shown = record(storlets=(StorletRef("up.py"),)).mapping()
    assert set(shown) == {
        "id", "time", "account", "storlets", "caller", "method", "object", "outcome", "code",
        "total_seconds",
    }  # fmt: skip
    assert shown["storlets"] == [{"name": "up.py"}]


def test_zero_is_known() -> None:
    known = {"bytes_in": 0, "cpu_seconds": 0.0, "failed_step": 0, "parameters": {}}
    assert record(**known).mapping().items() >= known.items()


def test_a_record_has_no_dictionary() -> None:
    """It would take 2 KiB of the memory that the queue counts for a record."""
    assert not hasattr(record(), "__dict__")


def test_each_code_has_an_outcome() -> None:
    assert outcome_of("ok") is Outcome.OK
    assert outcome_of("refused") is Outcome.REFUSED
    assert outcome_of(errors.CLIENT_GONE) is Outcome.CANCELLED
    assert outcome_of(errors.BAD_REQUEST) is Outcome.REFUSED
    assert outcome_of(errors.TENANT_BUSY) is Outcome.FAILED
    assert outcome_of("storlet.of_a_newer_release") is Outcome.FAILED


def test_texts_are_bounded() -> None:
    assert one_line("a\n b\r\n\tc" + "x" * 5000) == "a b c" + "x" * 1019
    assert tail(b"\xff" * 3 + b"y" * LOG_BYTES) == "y" * LOG_BYTES
    assert tail("z" * 5000) == "z" * LOG_BYTES
    assert record(log="x" * 4096).size_bytes > 4096


# --- what a caller sees ---------------------------------------------------------------------------

OWNER = Viewer(is_owner=True, caller="test:tester")


@pytest.mark.parametrize(
    ("viewer", "is_own"),
    [
        (OWNER, True),
        (Viewer(False, "test:tester"), True),
        (Viewer(False, "test:other"), False),
        (Viewer(False, ""), False),
        (Viewer(False, "test:tester", "u1"), False),
    ],
)
def test_a_caller_sees_own_runs_and_the_owner_all(viewer: Viewer, is_own: bool) -> None:
    assert (viewer.view(record().mapping()) is not None) is is_own


@pytest.mark.parametrize(
    ("viewer", "is_own"),
    [
        (Viewer(False, "renamed", "u1"), True),
        # Another user of the same name, of TempAuth or of another domain.
        (Viewer(False, "test:tester"), False),
        (Viewer(False, "test:tester", "u2"), False),
        (Viewer(False), False),
    ],
)
def test_users_of_keystone_are_known_by_their_ids(viewer: Viewer, is_own: bool) -> None:
    assert (viewer.view(record(caller_id="u1").mapping()) is not None) is is_own


def test_runs_of_anonymous_and_signed_requests_are_of_no_caller() -> None:
    shown = record(caller="").mapping()
    assert Viewer(False).view(shown) is None
    assert Viewer(True).view(shown) == shown


@given(st.sampled_from([row for row in TABLE if row.seen is not Seen.CALLER]))
def test_a_caller_under_a_rule_sees_only_what_every_caller_sees(row: Any) -> None:
    own = Viewer(False, "test:tester", "u1").view(FULL.mapping())
    assert own is not None
    assert row.name not in own


def test_a_caller_without_a_rule_does_not_see_the_owners_fields() -> None:
    full = dataclasses.replace(FULL, rule="", undoes_rule=False)
    own = Viewer(False, "test:tester", "u1").view(full.mapping())
    assert own is not None
    hidden = set(full.mapping()) - set(own)
    assert hidden == {"why", "node", "traceback", "log", "etag", "resource_etags"}


@pytest.mark.parametrize(
    ("code", "is_seen"),
    [
        ("storlet.timeout.idle", True), ("storlet.failed", False), ("storlet.load", False),
        ("input.incomplete", False), ("storlet.unknown", False), ("ok", True), ("refused", True),
    ],
)  # fmt: skip
def test_a_message_that_may_quote_data_is_the_owners(code: str, is_seen: bool) -> None:
    own = Viewer(False, "test:tester").view(record(code=code, message="m").mapping())
    assert own is not None
    assert ("message" in own) is is_seen
