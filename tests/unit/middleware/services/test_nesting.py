"""Storlets that run inside each other: cycles and depth."""

from __future__ import annotations

import pytest

from storlet_middleware.errors import StorletError
from storlet_middleware.services.nesting import MAX_DEPTH, Nesting, nesting_of


def test_a_request_of_a_client_is_in_no_run() -> None:
    assert nesting_of({}) == Nesting()
    assert Nesting().inside(["a.py", "a.py"]).chain == ("a.py", "a.py")


def test_the_chain_travels_in_the_environment() -> None:
    environ: dict[str, object] = {}
    inside = Nesting().inside(["a.py"])
    inside.put(environ)
    assert nesting_of(environ) == inside


def test_a_cycle_is_refused_by_name() -> None:
    inside = Nesting().inside(["a.py"]).inside(["b.py", "c.py"])
    with pytest.raises(StorletError, match=r"without end: b\.py -> c\.py -> b\.py") as caught:
        inside.inside(["b.py"])
    assert (caught.value.code, caught.value.status) == ("storlet.services", 422)


def test_the_depth_is_bounded() -> None:
    nesting = Nesting()
    for number in range(MAX_DEPTH):
        nesting = nesting.inside([f"{number}.py"])
    with pytest.raises(StorletError, match=f"inside each other {MAX_DEPTH} deep"):
        nesting.inside(["last.py"])
