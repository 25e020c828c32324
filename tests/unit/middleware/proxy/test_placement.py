"""Where an invocation runs, and the reasons that operators read in the log."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storlet_middleware.proxy.execution.steps import Settings, Step
from storlet_middleware.proxy.placement import OBJECT, PROXY, Placement, Reason, decide
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from tests.unit.middleware.object_nodes import VERSION

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


@pytest.mark.parametrize(
    ("services", "secrets", "reason"),
    [
        ((), {}, Reason.DEFAULT),
        (("read",), {}, Reason.SERVICES),
        ((), {"key": b"1"}, Reason.SECRETS),
        (("read",), {"key": b"1"}, Reason.SERVICES),
    ],
)
def test_no_object_node_runs_a_storlet_with_services_or_secrets(
    services: tuple[str, ...], secrets: dict[str, bytes], reason: Reason
) -> None:
    placement = Placement(GET, OBJECT)
    placement.adjust_to(
        Step("tx-1", Settings({}), replace(VERSION, services=services), secrets=secrets)
    )
    assert (placement.is_at_proxy, placement.reason) == (reason != Reason.DEFAULT, reason)


def test_a_run_at_the_proxy_keeps_its_first_reason() -> None:
    placement = Placement(replace(GET, run_on_proxy=True), OBJECT)
    placement.adjust_to(Step("tx-1", Settings({}), replace(VERSION, services=("read",))))
    assert (placement.is_at_proxy, placement.reason) == (True, Reason.REQUESTED)


def test_a_run_that_no_object_node_runs_moves_to_the_proxy() -> None:
    placement = Placement(GET, OBJECT)
    placement.move_to_proxy(Reason.OVERFLOW)
    assert (placement.is_at_proxy, placement.reason) == (True, Reason.OVERFLOW)


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
