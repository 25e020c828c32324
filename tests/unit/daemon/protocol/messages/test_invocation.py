"""The messages of one invocation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_daemon.protocol import messages
from storlet_daemon.protocol.messages import Done, Input, Invoke, Limits, Log, Output
from tests.unit.daemon.protocol.messages.parsing import (
    Example,
    assert_complete,
    assert_round_trip,
    faults_of,
)

EXAMPLES: list[Example] = [
    (
        Invoke(
            "tx-1",
            (Input(0, {"a": "b"}, 1, 2), Input(1)),
            Output(2),
            {"p": "q"},
            Log(3, 100),
            Limits(50),
            (Output(4), Output(5)),
        ),
        messages.INVOCATION_REQUEST,
        6,
    ),
    (Invoke("tx-1", (Input(0),), Output(1)), messages.INVOCATION_REQUEST, 2),
    (
        Invoke(
            "tx-1",
            (Input(0, seekable="file", size=0), Input(1, seekable="reads", size=1 << 40)),
            Output(2),
        ),
        messages.INVOCATION_REQUEST,
        3,
    ),
    (messages.Started(), messages.INVOCATION_EVENTS, 0),
    (messages.Metadata({"größe": "☃"}), messages.INVOCATION_EVENTS, 0),
    (messages.Metadata({}, 2), messages.INVOCATION_EVENTS, 0),
    (Done(messages.OK, usage=messages.Usage(0.5, 1000)), messages.INVOCATION_EVENTS, 0),
    (Done(messages.OK, usage=messages.Usage(input_bytes=7)), messages.INVOCATION_EVENTS, 0),
    (Done.error(messages.FAILED, "why", "where"), messages.INVOCATION_EVENTS, 0),
    (messages.Taken(), messages.INVOCATION_END, 0),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example[0].TYPE)
def test_an_encoded_message_is_parsed_back(example: Example) -> None:
    assert_round_trip(example)


def test_every_message_has_an_example() -> None:
    assert_complete(
        EXAMPLES, messages.INVOCATION_REQUEST, messages.INVOCATION_EVENTS, messages.INVOCATION_END
    )


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"seekable": "often", "size": 1}, "inputs[0].seekable is none of file, reads"),
        ({"seekable": "file"}, "inputs[0].seekable needs a size"),
        ({"seekable": "reads", "size": 5, "end": 1}, "inputs[0].seekable has a range"),
        ({"start": 5, "end": 1}, "inputs[0].end is before its start"),
    ],
)
def test_the_keys_of_an_input_fit_together(fields: dict[str, object], fault: str) -> None:
    invoke = {"v": 1, "type": "invoke", "id": "a", "output": {"fd": 1}}
    message = {**invoke, "inputs": [{"fd": 0, **fields}]}
    assert faults_of(message, messages.INVOCATION_REQUEST, 2) == [fault]


def test_a_done_that_is_an_error_needs_a_code_and_a_message() -> None:
    assert faults_of({"type": "done", "outcome": "error"}, messages.INVOCATION_EVENTS, 0)
    assert faults_of(
        {"type": "done", "outcome": "error", "code": "x", "message": "y"},
        messages.INVOCATION_EVENTS,
        0,
    )
    assert faults_of({"type": "done", "outcome": "perhaps"}, messages.INVOCATION_EVENTS, 0)


def test_an_error_text_is_one_line_of_bounded_length() -> None:
    done = Done.error(messages.FAILED, "a\n\tb\x1b[31m" + "x" * 1000, "é" * 20000)
    assert done.message is not None
    assert done.traceback is not None
    assert done.message.startswith("a b [31mxxx")
    assert len(done.message) == messages.SUMMARY_MAX
    assert len(done.traceback.encode()) <= messages.TRACEBACK_MAX
    assert "[...]" in done.traceback
    assert done.traceback[0] == done.traceback[-1] == "é"


def test_a_short_traceback_is_unchanged() -> None:
    assert messages.cut_middle("a\nb") == "a\nb"


@pytest.mark.parametrize(
    ("invoke", "count", "faults"),
    [
        (Invoke("x", (), Output(0)), 1, ["inputs is empty"]),
        (Invoke("x", (Input(0),), Output(2)), 2,
         ["there is no descriptor 2"]),
        (Invoke("x", (Input(0), Input(0)), Output(1)), 2, ["a descriptor is named twice"]),
        (Invoke("x", (Input(0),), Output(1), log=Log(1, 5)), 2, ["a descriptor is named twice"]),
        (Invoke("x", (Input(0),), Output(1)), 3, ["3 descriptors came, 2 are named"]),
        (Invoke("x", (Input(0, start=5, end=4),), Output(1)), 2,
         ["inputs[0].end is before its start"]),
    ],
)  # fmt: skip
def test_each_descriptor_of_an_invocation_is_named_once(
    invoke: Invoke, count: int, faults: list[str]
) -> None:
    assert faults_of(invoke.fields(), messages.INVOCATION_REQUEST, count) == faults


def test_a_range_may_end_at_its_start_or_have_no_start() -> None:
    for ranged in (Input(0, start=4, end=4), Input(0, end=0), Input(0, start=4)):
        assert Invoke("x", (ranged,), Output(1)).descriptor_faults(2) == []


@given(st.text(max_size=60), st.integers(20, 60))
def test_a_cut_text_fits_and_keeps_both_ends(text: str, limit: int) -> None:
    cut = messages.cut_middle(text, limit)
    plain = text.encode("utf-8", "replace").decode()
    assert len(cut.encode()) <= limit
    if len(plain.encode()) <= limit:
        assert cut == plain
    else:
        head, mark, tail = cut.partition("\n[...]\n")
        assert mark
        assert plain.startswith(head)
        assert plain.endswith(tail)


@given(st.text())
def test_a_line_has_no_control_characters(text: str) -> None:
    line = messages.one_line(text)
    assert line.isprintable()
    assert line == line.strip()
    assert messages.one_line(line) == line
