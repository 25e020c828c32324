"""The description of an invocation agrees with the options that its values come from."""

from __future__ import annotations

import dataclasses

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware.config import InvocationSection, LimitsSection, parse
from storlet_middleware.engine import limits
from storlet_middleware.engine.task import (
    Deadlines,
    FileInput,
    Limits,
    SeekableInput,
    ServiceLimits,
    StreamInput,
    Task,
)
from tests.unit.middleware.engine.invocations import Source
from tests.unit.middleware.engine.test_reads import Content


def names(cls: type) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)}


def test_every_deadline_and_limit_is_an_option_in_its_own_unit() -> None:
    assert {f"{name}_seconds" for name in names(Deadlines)} <= names(InvocationSection)
    assert {f"{name}_bytes" for name in names(Limits) - {"services"}} <= names(LimitsSection)
    assert {f"service_{name}" for name in names(ServiceLimits)} <= names(LimitsSection)


def test_the_options_of_the_class_arrive_in_the_field_of_their_name() -> None:
    options = {"first_byte": 2, "idle": 3, "total": 4, "queue": 5}
    text = "".join(f"{name}_seconds = {value}\n" for name, value in options.items())
    sizes = {"output": 1000, "metadata": 1001, "log": 1002}
    asked = {
        "operations": 6, "rate": 7, "concurrency": 8, "files": 9, "creations": 11, "bytes": 10,
    }  # fmt: skip
    text = f"[invocation]\n{text}[limits]\n" + "".join(
        [f"{name}_bytes = {value}\n" for name, value in sizes.items()]
        + [f"service_{name} = {value}\n" for name, value in asked.items()]
    )
    made = limits.effective(parse(text).classes["user"], {}, {})
    assert dataclasses.asdict(made.deadlines) == options
    assert dataclasses.asdict(made.limits) == {**sizes, "services": asked}


def test_a_task_has_no_log_and_no_resources_unless_they_are_given() -> None:
    task = Task("tx", {}, Deadlines(1, 2, 3, 4), Limits(1, 2, 3))
    assert (task.wants_log, task.resources) == (False, messages.Resources())


@pytest.mark.parametrize(
    "value",
    [
        FileInput(0, {}),
        StreamInput(Source([]), {}),
        SeekableInput(Content(), {}),
        Deadlines(1, 2, 3, 4),
        Limits(1, 2, 3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_cannot_be_changed_while_an_invocation_runs(value: object) -> None:
    name = dataclasses.fields(value)[0].name  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, name, 7)
