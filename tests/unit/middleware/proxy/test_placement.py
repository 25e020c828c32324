"""Where an invocation runs, and the reasons that operators read in the log."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.proxy.placement import OBJECT, PROXY, Reason, decide
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest

REFERENCE = Path(__file__).resolve().parents[4] / "docs" / "operator" / "reference.rst"
HERE = ObjectPath("c", "o")
GET = StorletRequest("GET", "v1", "AUTH_test", "up.py", HERE, None, {})
PUT: dict[str, Any] = {"method": "PUT", "source": None, "target": HERE}


@pytest.mark.parametrize("default", [OBJECT, PROXY])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"method": "COPY", "target": ObjectPath("c", "x")}, None),
        ({"ranges": ((0, 1), (2, 3))}, None),
        (PUT, (PROXY, Reason.INCOMING_BODY)),
        ({"run_on_proxy": True}, (PROXY, Reason.REQUESTED)),
        ({"run_on_object": True}, (OBJECT, Reason.REQUESTED)),
        ({"extra": (HERE,)}, (PROXY, Reason.SEVERAL_INPUTS)),
        # A request or a rule cannot place a run where its input is not.
        ({**PUT, "run_on_object": True}, (PROXY, Reason.INCOMING_BODY)),
        ({"extra": (HERE,), "run_on_object": True}, (PROXY, Reason.SEVERAL_INPUTS)),
        ({"run_on_proxy": True, "run_on_object": True}, (PROXY, Reason.REQUESTED)),
    ],
)
def test_the_request_decides_before_the_option(
    changes: dict[str, Any], expected: tuple[str, Reason] | None, default: str
) -> None:
    assert decide(replace(GET, **changes), default) == (expected or (default, Reason.DEFAULT))


def test_each_reason_has_one_word_of_the_log() -> None:
    """Operators search logs for these words, so they do not change."""
    assert {str(reason) for reason in Reason} == {
        "default", "asked", "incoming-body", "several-inputs", "several-outputs", "services",
        "secrets", "long-description", "link", "overflow", "node-unable", "node-version", "not-plain",
    }  # fmt: skip


def test_the_operators_reference_lists_each_reason_once() -> None:
    section = REFERENCE.read_text("utf-8").partition("The values of ``why``:")[2]
    table = section.partition("Output and exceptions")[0]
    assert re.findall(r"^``([a-z-]+)``", table, re.MULTILINE) == [each.value for each in Reason]
