"""The splits of a distribution; ``test_distributed`` has their behaviour."""

from __future__ import annotations

from storlet_middleware.flows.distribution import Part
from storlet_middleware.flows.splits import Outcome, headers_of
from storlet_middleware.wsgi.storlet_request import ObjectPath


def test_parameters_are_quoted() -> None:
    part = Part("std:grep", {"a:b": "c d\n", "ü": "%"}, {"memory": "64M"})
    assert headers_of(part) == {
        "X-Run-Storlet": "std:grep",
        "X-Storlet-Parameter-0": "a%3Ab:c%20d%0A",
        "X-Storlet-Parameter-1": "%C3%BC:%25",
        "X-Storlet-Limit-memory": "64M",
    }


def test_the_error_of_an_outcome_names_the_object() -> None:
    error = Outcome(ObjectPath("c", "a/b"), "storlet.failed", 422, "no").error
    assert (str(error), error.status) == ("/c/a/b: no", 422)
