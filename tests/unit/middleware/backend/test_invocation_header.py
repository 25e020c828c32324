"""The description of an invocation in backend headers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from storlet_middleware.backend.invocation_header import BackendInvocation, UnknownVersion
from tests.unit.middleware.object_nodes import GULP, VERSION


def test_a_description_survives_its_headers_unless_it_is_too_long() -> None:
    wanted = BackendInvocation(
        "tx-1", VERSION, {"k": "ü" * 3000}, ((1, None),), True, GULP, log_delay_seconds=0.0
    )
    headers = wanted.to_headers()
    assert headers is not None
    assert len(headers) > 1
    assert all(value.isascii() and len(value) < 8000 for value in headers.values())
    environ = {"HTTP_" + key.upper().replace("-", "_"): value for key, value in headers.items()}
    assert BackendInvocation.from_environ(environ) == wanted
    assert (
        BackendInvocation("tx-1", VERSION, {"k": "x" * 50000}, (), False, GULP).to_headers() is None
    )
    assert BackendInvocation.from_environ({}) is None
    with pytest.raises(ValueError, match="X-Backend-Storlet-Invocation"):
        BackendInvocation.from_environ({"HTTP_X_BACKEND_STORLET_INVOCATION": "1"})


HEADER = "X-Backend-Storlet-Invocation"


def description(**changes: Any) -> dict[str, str]:
    """The headers of a description; a change to ``None`` removes a key."""
    headers = BackendInvocation("tx-1", VERSION, {}, (), False, GULP).to_headers() or {}
    count, text = headers[HEADER].split(" ", 1)
    message = {
        key: value for key, value in (json.loads(text) | changes).items() if value is not None
    }
    return {HEADER: f"{count} {json.dumps(message)}"}


#: The descriptions of proxies, oldest first.
FIRST_RELEASE = {"version": None, "frames": None, "log_delay": None}

NOW: dict[str, Any] = {}


def test_a_description_of_an_unknown_version_is_not_a_broken_one() -> None:
    def read(changes: dict[str, Any]) -> BackendInvocation | None:
        environ = {f"HTTP_{HEADER.upper().replace('-', '_')}": description(**changes)[HEADER]}
        return BackendInvocation.from_environ(environ)

    assert read(FIRST_RELEASE) == read(NOW)
    for version in ("2", 1, ""):
        with pytest.raises(UnknownVersion):
            read({"version": version})
    with pytest.raises(ValueError, match=HEADER) as caught:
        read({"storlet": None})
    assert not isinstance(caught.value, UnknownVersion)


def test_an_older_node_does_not_know_the_description_of_a_storlet_that_seeks() -> None:
    seekable = replace(VERSION, seekable=True)
    headers = BackendInvocation("tx-1", seekable, {}, (), False, GULP).to_headers() or {}
    assert json.loads(headers[HEADER].split(" ", 1)[1])["version"] == "1-seekable"
    environ = {f"HTTP_{HEADER.upper().replace('-', '_')}": headers[HEADER]}
    found = BackendInvocation.from_environ(environ)
    assert found is not None
    assert found.storlet.seekable
