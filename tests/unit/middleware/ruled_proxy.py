"""A proxy of an account with rules, over a Swift in memory."""

from __future__ import annotations

from typing import Any

from storlet_middleware import names
from tests.unit.middleware.rules_account import AccountSwift, InfoCache
from tests.unit.middleware.support import ACCOUNT, Answer, Proxy

BOB = "test:bob"

CONTENT = b"a secret in lower case"

UPPER = CONTENT.upper()

OBJECT = f"/v1/{ACCOUNT}/c/o"


class Cache(InfoCache):
    """A memcached that also serves the cache of storlet versions."""

    def get_multi(self, keys: list[str], server_key: str) -> list[Any]:
        return [self.get(key) for key in keys]

    def set_multi(self, mapping: dict[str, Any], server_key: str, **more: Any) -> None:
        for key, value in mapping.items():
            self.set(key, value)


class Ruled:
    """A proxy with rules."""

    def __init__(self, swift: AccountSwift, proxy: Proxy) -> None:
        self.swift = swift
        self.proxy = proxy

    def rule(self, text: str) -> None:
        """Put rules in force, without the checks of an upload."""
        body = f"version: 1\nrules:\n{text}".encode()
        self.swift.bring_into_force(body, is_mandatory=b"mandatory: true" in body)
        self.proxy.memcache.values.clear()
        # Load the caches, as in a proxy that has served a request of the account before.
        self.proxy.call("GET", "c/other")
        self.seen()

    def seen(self) -> list[str]:
        """Method and path, without the account, of each request to Swift since the last call."""
        found = [
            f"{one.method} {one.path.removeprefix(f'/v1/{ACCOUNT}/')}" for one in self.swift.seen
        ]
        self.swift.seen.clear()
        return found

    def get(self, path: str = "c/o", headers: dict[str, str] | None = None, **more: Any) -> Answer:
        answer: Answer = self.proxy.call("GET", path, headers, **more)
        return answer


def rule(name: str, when: str, action: str, mandatory: bool = True) -> str:
    return f"- name: {name}\n  when: {{{when}}}\n{'  mandatory: true' * mandatory}\n  {action}\n"


def assert_closed(answer: Answer, name: str = "hide") -> None:
    assert (answer.status, answer.error, answer.headers.get(names.RULE)) == (
        403,
        "access.rule",
        name,
    ), answer.data
    assert b"secret" not in answer.data
    assert "secret" not in str(answer.headers)
