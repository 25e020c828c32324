"""Test doubles for an account with rules: system metadata, memcached, a proxy's rule store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swift.common.exceptions import MemcacheConnectionError
from swift.common.swob import Request, Response
from swift.proxy.controllers.base import clear_info_cache

from storlet_middleware import names
from storlet_middleware.ruleset.pointer import Pointer
from storlet_middleware.ruleset.store import RuleStore
from storlet_middleware.wsgi.operation import parse
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import ACCOUNT, OWNER, FakeSwift, authorize, make_config

RULES = "storlet_rules/rules.yaml"
ORDINARY = b"version: 1\nrules:\n- name: night\n  when: {container: a}\n  deny: not now\n"
MANDATORY = (
    b"version: 1\nrules:\n"
    b"- name: closed\n  when: {container: a}\n  mandatory: true\n  deny: never\n"
)
RUNS = b"version: 1\nrules:\n- name: thumb\n  when: {method: PUT, container: a}\n  run: up.py\n"


class AccountSwift(FakeSwift):
    """A :class:`FakeSwift` with system metadata of the account.

    Each of ``replicas`` has its own copy; ``asked`` selects the replica that answers next.
    """

    def __init__(self) -> None:
        super().__init__()
        self.replicas: list[dict[str, str]] = [{}]
        self.asked = 0
        self.status = 204
        self.post_statuses: list[int] = []
        self.on_read: Callable[[], None] | None = None
        self.put("storlet_rules", ".keep")
        self.put_storlet()

    @property
    def pointer(self) -> str | None:
        """The pointer to the ruleset in force, from the account's system metadata."""
        return self.replicas[0].get(names.ACCOUNT_RULES)

    def bring_into_force(self, rules: bytes, *, is_mandatory: bool) -> None:
        """Store rules and point to them, without the checks of an upload."""
        version = hashlib.sha256(rules).hexdigest()
        pointer = Pointer.to(version, is_mandatory=is_mandatory, after=None)
        for name in ("rules.yaml", pointer.name):
            self.put("storlet_rules", name, rules)
        self.replicas[0][names.ACCOUNT_RULES] = pointer.text

    @property
    def stored(self) -> dict[str, bytes]:
        """The objects of the rules container."""
        objects = self.containers["storlet_rules"].objects
        return {name: stored.body for name, stored in objects.items() if name != ".keep"}

    def respond(self, request: Any) -> Any:
        parts = request.environ["PATH_INFO"].split("/")
        if len(parts) > 3 and parts[3]:
            return super().respond(request)
        if request.method == "POST":
            return self._post_account(request)
        replica = self.replicas[self.asked % len(self.replicas)]
        headers = {"X-Account-Meta-Storlet-Enabled": str(self.is_enabled), **replica}
        answer = Response(
            status=self.status, request=request, headers=headers if self.status == 204 else {}
        )
        if self.on_read:
            self.on_read()
        return answer

    def _post_account(self, request: Any) -> Any:
        # Swift clears its cache before it writes.
        clear_info_cache(request.environ, ACCOUNT)
        status = self.post_statuses.pop(0) if self.post_statuses else 204
        if status == 204:
            for replica in self.replicas:
                replica[names.ACCOUNT_RULES] = request.headers[names.ACCOUNT_RULES]
        return Response(status=status, request=request)


class InfoCache:
    """A memcached with Swift's account info, shared by proxies.

    It serialises values as JSON, like the real client.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.is_broken = False

    def get(self, key: str, *args: Any, **more: Any) -> Any:
        return json.loads(self.values[key]) if key in self.values else None

    def set(self, key: str, value: Any, *args: Any, **more: Any) -> None:
        self.values[key] = json.dumps(value)

    def delete(self, key: str, *args: Any, **more: Any) -> None:
        self.values.pop(key, None)

    def incr(self, key: str, delta: int = 1, time: int = 0) -> int:
        if self.is_broken:
            raise MemcacheConnectionError("no server")
        assert time > 0
        count = int(self.get(key) or 0) + delta
        self.set(key, count)
        return count


class RulesProxy:
    """A proxy's :class:`RuleStore` over an :class:`AccountSwift`."""

    def __init__(
        self,
        swift: AccountSwift,
        directory: Path,
        memcache: InfoCache | None = None,
        **options: str,
    ) -> None:
        self.swift = swift
        self.logger = Logger()
        self.memcache = memcache
        self.store = RuleStore(
            swift, make_config(directory, **options), self.logger, client_seconds=60
        )

    def environ(
        self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any
    ) -> dict[str, Any]:
        environ: dict[str, Any] = {
            "swift.trans_id": "txtest",
            "swift.authorize": authorize,
            "REMOTE_USER": OWNER,
        }
        if self.memcache is not None:
            environ["swift.cache"] = self.memcache
        environ |= more.pop("environ", {})
        body = more.pop("body", None)
        request = Request.blank(
            f"/v1/{ACCOUNT}/{path}", method=method, headers=headers or {}, environ=environ, **more
        )
        if body is not None:
            request.body = body
        made: dict[str, Any] = request.environ
        return made

    def handler(self, environ: dict[str, Any]) -> Any:
        operation = parse(environ)
        assert operation is not None
        return self.store.handler(environ, operation)

    def call(
        self, method: str, path: str = RULES, headers: dict[str, str] | None = None, **more: Any
    ) -> Any:
        """Send a request that changes rules; errors that the filter would answer are raised."""
        environ = self.environ(method, path, headers, **more)
        handler = self.handler(environ)
        assert handler is not None, "the request does not change rules"
        answer = handler(environ)
        return answer if isinstance(answer, Response) else Request(environ).get_response(answer)

    def upload(self, rules: bytes, headers: dict[str, str] | None = None, **more: Any) -> Any:
        return self.call("PUT", RULES, headers, body=rules, **more)

    def of(self, path: str = "a/b") -> Any:
        """Return the ruleset in force for a request of now."""
        return self.store.of(self.environ("GET", path), "v1", ACCOUNT)

    def names(self) -> list[str]:
        """Return the names of the rules in force."""
        loaded = self.of()
        return [rule.name for rule in loaded.compiled.rules.rules] if loaded else []
