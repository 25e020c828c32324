"""The faults of sandboxd: the tree in the docstring, and the answer to each fault."""

from __future__ import annotations

import inspect
import re

import pytest

from storlet_middleware import errors as answers
from storlet_middleware.sandboxd import errors
from storlet_middleware.sandboxd.pool import pool

FAULTS = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.SandboxdFault)
]


def drawn() -> dict[str, str]:
    """The parent of each class in the tree of the docstring."""
    parents, path = {}, ["SandboxdFault"]
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│ ]*)[├└]── (\w+)", line)
        if match:
            depth = 1 + len(match[1]) // 4
            del path[depth:]
            parents[match[2]] = path[-1]
            path.append(match[2])
    return parents


def test_the_docstring_draws_the_tree_of_the_classes() -> None:
    below = [fault for fault in FAULTS if fault is not errors.SandboxdFault]
    assert drawn() == {fault.__name__: fault.__bases__[0].__name__ for fault in below}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_becomes_an_answer_of_one_line(fault: type[errors.SandboxdFault]) -> None:
    answer = pool._answer(fault("first line\nsecond line"))
    expected = answers.InternalError if fault is errors.LoadRefused else answers.SandboxUnavailable
    assert type(answer) is expected
    assert "\n" not in str(answer)
    assert ("first line" in str(answer)) is (fault is not errors.SandboxWeak)


def test_a_caller_retries_soon_when_docker_does_not_answer() -> None:
    soon = pool._answer(errors.EngineUnavailable("Docker does not answer")).retry_after
    later = pool._answer(errors.EngineFault("Docker refused")).retry_after
    assert soon == pool.UNAVAILABLE_RETRY_SECONDS
    assert later is not None
    assert later >= soon
