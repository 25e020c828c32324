"""The chain of authorization: Swift, grants, rules, in this order; one context a request."""

from __future__ import annotations

from typing import Any

import pytest

from storlet_middleware.wsgi.context import (
    CONTEXT,
    AuthorizationChain,
    context_of,
    install,
    swift_authorize,
)

REFUSAL = object()
RULED = object()


class Calls:
    """A link of the chain that records its calls."""

    def __init__(self, name: str, calls: list[str], answer: Any) -> None:
        self._name, self._calls, self._answer = name, calls, answer
        self.refused: list[Any] = []

    def __call__(self, request: Any) -> Any:
        self._calls.append(self._name)
        return self._answer

    def allows(self, request: Any, swift: Any) -> bool:
        self._calls.append(self._name)
        return bool(self._answer)


@pytest.mark.parametrize(
    ("swift", "grants", "rules", "asked", "outcome"),
    [
        (None, [], None, ["swift", "rules"], None),
        (None, [True], RULED, ["swift", "rules"], RULED),
        (REFUSAL, [], None, ["swift"], REFUSAL),
        (REFUSAL, [False], None, ["swift", "grant 0"], REFUSAL),
        (REFUSAL, [False, True], None, ["swift", "grant 0", "grant 1", "rules"], None),
        (REFUSAL, [True, True], RULED, ["swift", "grant 0", "rules"], RULED),
    ],
)
def test_links_are_called_in_order(
    swift: Any, grants: list[bool], rules: Any, asked: list[str], outcome: Any
) -> None:
    calls: list[str] = []
    links: Any = [Calls(f"grant {number}", calls, allows) for number, allows in enumerate(grants)]
    last: Any = Calls("rules", calls, rules)
    chain = AuthorizationChain(Calls("swift", calls, swift), rules=last).with_grants(*links)
    assert chain(object()) is outcome
    assert calls == asked
    assert chain.denied == ([REFUSAL] if outcome is REFUSAL else [])


def test_a_pipeline_without_authentication_allows_everything_but_what_rules_refuse() -> None:
    last: Any = Calls("rules", [], RULED)
    assert AuthorizationChain(None)(object()) is None
    assert AuthorizationChain(None, rules=last)(object()) is RULED


def test_a_context_that_is_installed_again_wraps_swifts_check_only() -> None:
    def authorize(request: Any) -> None:
        """Allows."""

    environ: dict[str, Any] = {
        "PATH_INFO": "/v1/a/c/o",
        "REQUEST_METHOD": "GET",
        "swift.authorize": authorize,
    }
    first = install(environ, None)
    second = install(environ, None)
    assert (first.chain.swift, second.chain.swift) == (authorize, authorize)
    assert environ["swift.authorize"] is second.chain
    assert swift_authorize(environ) is authorize
    assert context_of(environ) is second
    assert environ[CONTEXT] is second
