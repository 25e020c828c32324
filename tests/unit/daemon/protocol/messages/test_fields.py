"""How fields are read: accepted values, and the faults of all others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.messages import Input, Invoke, Output, fields
from storlet_daemon.protocol.values import dataclass
from tests.unit.daemon.protocol.messages.parsing import faults_of


def test_all_faults_are_reported_together() -> None:
    given = {
        "v": 1,
        "type": "invoke",
        "inputs": [{"fd": "x"}, 3],
        "output": {"fd": True},
        "log": {},
        "parameters": {"a": 1},
    }
    assert faults_of(given) == [
        "id is missing",
        "inputs[0].fd is not a whole number from 0",
        "inputs[1] is not an object",
        "output.fd is not a whole number from 0",
        "parameters.a is not text",
        "log.fd is missing",
        "log.limit is missing",
    ]


def test_a_key_whose_value_is_null_is_absent() -> None:
    given = {
        "v": 1,
        "type": "invoke",
        "id": "x",
        "inputs": [{"fd": 0, "start": None}],
        "output": {"fd": 1},
        "log": None,
    }
    assert messages.parse(given, messages.INVOCATION_REQUEST, 2) == Invoke(
        "x", (Input(0),), Output(1)
    )


def test_unknown_keys_are_ignored() -> None:
    assert (
        messages.parse({"type": "started", "when": "now"}, messages.INVOCATION_EVENTS)
        == messages.Started()
    )


@pytest.mark.parametrize("version", [None, 0, 2, "1", True, 1.0])
def test_an_unsupported_version_is_the_only_fault(version: object) -> None:
    given = {"v": version, "type": "invoke"}
    assert faults_of(given) == [f"protocol version {version!r} is not supported here, only 1"]


HASH = "0f" * 32
COUNT_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("reader", "accepted", "refused"),
    [
        (fields.read_text, ["", "a\0b"], [1, None, []]),
        (fields.read_name, ["a", "a/b"], ["", "a\0b", 1]),
        (fields.read_file_name, ["a", "...", ".a"], ["", ".", "..", "a/b", "a\0b", 1]),
        (fields.read_hash, [HASH], [HASH.upper(), HASH[1:], HASH + "0", HASH + "\n", 1]),
        (fields.read_count, [0, COUNT_MAX], [-1, COUNT_MAX + 1, True, 1.0, "1"]),
        (fields.read_number, [0, 0.5, COUNT_MAX], [-0.1, 2.0**64, True, float("inf"), "1"]),
        (fields.read_flag, [True, False], [0, 1, "true"]),
        (fields.read_object, [{}, {"a": []}], [[], "{}"]),
        (fields.read_texts_by_name, [{}, {"a": "b"}], [{"a": 1}, [], "a"]),
        (fields.one_of("ok", "error"), ["ok"], ["OK", "", None]),
        (fields.each(fields.read_count), [[], [1, 2]], [[1, -1], (1,), {}]),
    ],
)
def test_each_reader_accepts_its_type_only(
    reader: fields.Reader, accepted: list[object], refused: list[object]
) -> None:
    for value in accepted:
        faults: list[str] = []
        read = reader(value, "key", faults)
        assert (read, faults) == (tuple(value) if isinstance(value, list) else value, [])
    for value in refused:
        faults = []
        reader(value, "key", faults)
        (fault,) = faults
        assert fault.startswith("key"), value


def test_not_a_number_is_refused() -> None:
    faults: list[str] = []
    fields.read_number(float("nan"), "key", faults)
    assert faults == ["key is not a number from 0"]


def test_a_message_of_another_table_is_refused() -> None:
    assert faults_of({"type": "ready"}) == ["a message of type 'ready' is not expected here"]
    (fault,) = faults_of({"type": "x" * 100_000})
    assert len(fault) < 200


@dataclass(frozen=True)
class Inner:
    """A record within a message."""

    count: int = fields.wire(fields.read_count)


@dataclass(frozen=True)
class Sample(fields.Message):
    """A message with a nested record, a list and an optional key."""

    TYPE = "sample"
    DESCRIPTORS = 2

    inner: Inner = fields.wire(fields.record(Inner))
    more: Sequence[Inner] = fields.wire(fields.each(fields.record(Inner)), default=())
    note: str | None = fields.wire(fields.read_text, default=None)


def test_the_fields_of_a_message_leave_out_absent_values() -> None:
    sample = Sample(Inner(1), (Inner(2),))
    assert sample.fields() == {"type": "sample", "inner": {"count": 1}, "more": [{"count": 2}]}
    table = fields.kinds_of(Sample)
    assert fields.parse(sample.fields(), table, 2) == sample


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_message_with_the_wrong_number_of_descriptors_is_refused(count: int) -> None:
    table = fields.kinds_of(Sample)
    expected = [f"sample came with {count} descriptors, it needs 2"]
    assert faults_of(Sample(Inner(1)).fields(), table, count) == expected
