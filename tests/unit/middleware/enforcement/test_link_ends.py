"""The end of a chain of links; what cannot be parsed may be in any account."""

from __future__ import annotations

import pytest

from storlet_middleware.enforcement.link_ends import LinkEnd, link_end
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.swift_paths import SwiftPath

LINK = SwiftPath("v1", "AUTH_a", "c", "o")


def test_an_object_that_is_no_link_has_no_end() -> None:
    assert link_end(LINK, {}) is None
    assert link_end(None, {}) is None


@pytest.mark.parametrize(("account", "is_elsewhere"), [("AUTH_a", False), ("AUTH_b", True)])
def test_the_end_is_in_the_account_of_the_link_or_elsewhere(
    account: str, is_elsewhere: bool
) -> None:
    found = link_end(LINK, {"Content-Location": f"/v1/{account}/c/a%20b?version-id=1"})
    assert found == LinkEnd(SwiftPath("v1", account, "c", "a b"), is_elsewhere)


@pytest.mark.parametrize("location", ["", "nowhere", "/v1/AUTH_a/c", "/v1/AUTH_a/c/%ff"])
def test_an_unknown_end_is_elsewhere(location: str) -> None:
    end = link_end(LINK, {"Content-Location": location})
    assert end == LinkEnd(None, is_elsewhere=True)
    with pytest.raises(BackendFailed, match="the target of a link is unknown"):
        _ = end.known_path


def test_the_end_of_an_unknown_link_is_elsewhere() -> None:
    assert link_end(None, {"Content-Location": LINK.path}) == LinkEnd(None, is_elsewhere=True)
