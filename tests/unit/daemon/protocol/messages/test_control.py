"""The commands of the node daemon and the reports of a supervisor."""

from __future__ import annotations

import pytest

from storlet_daemon.protocol import messages
from tests.unit.daemon.protocol.messages.parsing import (
    VERSION,
    Example,
    assert_complete,
    assert_round_trip,
    faults_of,
)

EXAMPLES: list[Example] = [
    (messages.Hello(1, (VERSION,)), messages.CONTROL_REPORTS, 0),
    (
        messages.Load(1, VERSION, VERSION, "python", "a.B", "a.py", "a.py", "3.11", ("x.sh",)),
        messages.CONTROL_COMMANDS,
        1,
    ),
    (messages.Loaded(1), messages.CONTROL_REPORTS, 0),
    (messages.Unload(2, VERSION), messages.CONTROL_COMMANDS, 0),
    (messages.Unloaded(2), messages.CONTROL_REPORTS, 0),
    (messages.AskStatus(3), messages.CONTROL_COMMANDS, 0),
    (
        messages.GroupStatus(3, (messages.Group(VERSION, "a.py", 2, 1, 9, 0, 0.5),)),
        messages.CONTROL_REPORTS,
        0,
    ),
    (messages.Refused(4, "why"), messages.CONTROL_REPORTS, 0),
    (messages.Assign(5, 200001, 200001), messages.CONTROL_COMMANDS, 0),
    (messages.Assigned(5), messages.CONTROL_REPORTS, 0),
    (messages.Inspect(6), messages.CONTROL_COMMANDS, 0),
    (messages.Inspected(6, {"/proc/self/status": "Seccomp: 2"}), messages.CONTROL_REPORTS, 0),
    (messages.Check(7), messages.CONTROL_COMMANDS, 1),
    (messages.Checked(7, {"network": ""}), messages.CONTROL_REPORTS, 0),
    (
        messages.Place(VERSION, 12, messages.Resources(1 << 20, 0.5, 10, 64, 1 << 20)),
        messages.CONTROL_REPORTS,
        0,
    ),
    (messages.Placed(12, "g-0f"), messages.CONTROL_COMMANDS, 0),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example[0].TYPE)
def test_an_encoded_message_is_parsed_back(example: Example) -> None:
    assert_round_trip(example)


def test_every_message_has_an_example() -> None:
    assert_complete(EXAMPLES, messages.CONTROL_COMMANDS, messages.CONTROL_REPORTS)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a\0b"])
def test_names_of_files_stay_in_their_folder(name: str) -> None:
    fields = messages.Load(1, VERSION, VERSION, "python", "a.B", "a.py", "a.py").fields()
    assert "file is not a file name" in faults_of(
        {**fields, "file": name}, messages.CONTROL_COMMANDS, 1
    )
    assert "dependencies[0] is not a file name" in faults_of(
        {**fields, "dependencies": [name]}, messages.CONTROL_COMMANDS, 1
    )


def test_a_version_that_could_be_a_path_is_refused() -> None:
    assert faults_of(
        {"type": "unload", "request": 1, "version": "../" * 20}, messages.CONTROL_COMMANDS, 0
    )


@pytest.mark.parametrize("key", ["memory_bytes", "processes", "cpus"])
def test_the_faults_of_limits_name_their_key(key: str) -> None:
    fields = messages.Load(1, VERSION, VERSION, "python", "a.B", "a.py", "a.py").fields()
    given = {**fields, "limits": {key: -1}}
    (fault,) = faults_of(given, messages.CONTROL_COMMANDS, 1)
    assert fault.startswith(f"limits.{key} is not a")


def test_a_load_needs_the_listening_socket() -> None:
    fields = messages.Load(1, VERSION, VERSION, "python", "a.B", "a.py", "a.py").fields()
    assert faults_of(fields, messages.CONTROL_COMMANDS, 0) == [
        "load came with 0 descriptors, it needs 1"
    ]


def test_a_load_without_options_has_the_defaults_of_the_protocol() -> None:
    required = ("v", "type", "request", "version", "code", "language", "main", "file", "name")
    load = messages.Load(1, VERSION, VERSION, "python", "a.B", "a.py", "a.py")
    given = {key: value for key, value in load.fields().items() if key in required}
    assert messages.parse(given, messages.CONTROL_COMMANDS, 1) == load
    assert load.limits == messages.Resources()
