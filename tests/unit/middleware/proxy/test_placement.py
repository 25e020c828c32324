"""proxy/placement.py: where a run is placed, and its reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from storlet_middleware.proxy import placement
from storlet_middleware.proxy.placement import OBJECT, PROXY, Reason
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest

REFERENCE = Path(__file__).resolve().parents[4] / "docs" / "operator" / "reference.rst"
SOURCE = ObjectPath("c", "o")


def request(
    source: ObjectPath | None = SOURCE,
    extra: tuple[ObjectPath, ...] = (),
    *,
    run_on_proxy: bool = False,
    run_on_object: bool = False,
) -> StorletRequest:
    return StorletRequest(
        method="GET" if source else "PUT",
        version="v1",
        account="AUTH_a",
        storlet="up.py",
        source=source,
        target=None if source else SOURCE,
        parameters={},
        extra=extra,
        run_on_proxy=run_on_proxy,
        run_on_object=run_on_object,
    )


@pytest.mark.parametrize("default", [OBJECT, PROXY])
def test_each_reason_precedes_the_operators_default(default: str) -> None:
    other = ObjectPath("c", "other")
    rows = [
        (request(None), PROXY, Reason.INCOMING_BODY),
        (request(None, run_on_object=True), PROXY, Reason.INCOMING_BODY),
        (request(run_on_proxy=True), PROXY, Reason.REQUESTED),
        (request(extra=(other,)), PROXY, Reason.SEVERAL_INPUTS),
        (request(extra=(other,), run_on_object=True), PROXY, Reason.SEVERAL_INPUTS),
        (request(run_on_object=True), OBJECT, Reason.REQUESTED),
        (request(), default, Reason.DEFAULT),
    ]
    for given, place, reason in rows:
        assert placement.decide(given, default) == (place, reason), given


def test_the_operators_reference_lists_each_reason_once() -> None:
    section = REFERENCE.read_text("utf-8").partition("The values of ``why``:")[2]
    table = section.partition("Output and exceptions")[0]
    assert re.findall(r"^``([a-z-]+)``", table, re.MULTILINE) == [each.value for each in Reason]
