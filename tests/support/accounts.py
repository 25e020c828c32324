"""Users and accounts of a test cluster."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any, Final

from tests.support.http import Client, fetch, log_in

ENABLE: Final = {"X-Account-Meta-Storlet-Enabled": "True"}

#: See :func:`delete_large_objects`.
LARGE_BYTES: Final = 1 << 18


def users_of(description: dict[str, Any]) -> dict[str, Client]:
    """A logged-in client for each user in ``cluster.json``."""
    return {
        user: log_in(description["auth_url"], user, key)
        for user, key in description["users"].items()
    }


def info_of(description: dict[str, Any]) -> dict[str, Any]:
    """Swift's ``/info``."""
    answer = fetch(description["auth_url"].removesuffix("/auth/v1.0") + "/info")
    assert answer.status == 200, answer
    value: dict[str, Any] = json.loads(answer.body)
    return value


def prepare_account(client: Client) -> None:
    """Enable storlets and create the three containers of the account."""
    assert client.post("", ENABLE).status in (201, 204)
    for container in ("storlet", "dependency", "storletlog"):
        assert client.put(container).status in (201, 202)


def delete_large_objects(client: Client, container: str) -> None:
    """Delete the objects of a container that take space."""
    for entry in client.listing(container):
        if entry["bytes"] >= LARGE_BYTES:
            client.delete(f"{container}/{entry['name']}")


def used_bytes(folder: Path) -> int:
    """The space that is used of the file system of a folder."""
    place = os.statvfs(folder)
    return (place.f_blocks - place.f_bfree) * place.f_frsize


def unique(stem: str) -> str:
    """A name that no other test uses."""
    return f"{stem}_{uuid.uuid4().hex[:10]}"
