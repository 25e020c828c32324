"""The objects that hold an account's rules: ``rules.yaml`` and all ruleset versions.

::

    storlet_rules/rules.yaml                                            the last upload
    storlet_rules/versions/20260314T091500.000000Z-0123456789ab.yaml    the same, immutable

Requests are pre-authorized; the callers of this module authorize the client first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from swift.common.utils import close_if_possible

from rules import parse
from rules.text import MAX_BYTES
from storlet_middleware.errors import BackendFailed
from storlet_middleware.ruleset.pointer import VERSIONS, Pointer
from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.bodies import ObjectBody
from storlet_middleware.wsgi.swift_paths import AccountPath, object_path

RULES: Final = "rules.yaml"
CONTENT_TYPE: Final = "application/yaml"


def is_ours(name: str) -> bool:
    """Whether ``name`` in the rules' container is ``rules.yaml`` or a version."""
    return name == RULES or name.startswith(VERSIONS)


class Versions:
    """The rules' container of any account.

    :param app: the rest of the proxy's pipeline.
    """

    def __init__(self, app: Any, container: str) -> None:
        self._app = app
        self._container = container

    def path(self, account_path: AccountPath, name: str) -> str:
        """Quoted, with an empty query."""
        return object_path(*account_path, self._container, name)

    def text_of(
        self, environ: dict[str, Any], account_path: AccountPath, pointer: Pointer
    ) -> bytes:
        """The text of the rules, from either of two copies.

        Raises :class:`BackendFailed` if neither copy has the pointer's ruleset version.
        """
        problems = []
        for name in (pointer.name, RULES):
            text, status = self.read(environ, account_path, name)
            if text is not None and parse.version_of(text) == pointer.version:
                return text
            is_missing = text is None
            problem = f"Swift returned {status}" if is_missing else "is not the version in force"
            problems.append(f"{name}: {problem}")
        raise BackendFailed("; ".join(problems))

    def read(
        self, environ: dict[str, Any], account_path: AccountPath, name: str
    ) -> tuple[bytes | None, int]:
        """The content and Swift's status; the content is ``None`` unless the status is 200.

        Raises :class:`BackendFailed` if the body is truncated or too long.
        """
        # Versions are immutable, so any replica will do.
        headers = own_requests.NEWEST if name == RULES else {}
        path = self.path(account_path, name)
        answer = own_requests.send(self._app, environ, "GET", path, headers)
        try:
            if answer.status_int != 200:
                return None, answer.status_int
            if (answer.content_length or 0) > MAX_BYTES:
                raise BackendFailed(f"{name} has {answer.content_length} bytes")
            return b"".join(ObjectBody(answer)), 200
        finally:
            close_if_possible(answer.app_iter)

    def write(
        self,
        environ: dict[str, Any],
        account_path: AccountPath,
        name: str,
        text: bytes,
        headers: Mapping[str, str],
    ) -> Any:
        """Store ``text``; return Swift's response, without its body."""
        path, headers = self.path(account_path, name), {"Content-Type": CONTENT_TYPE, **headers}
        return own_requests.exchange(self._app, environ, "PUT", path, headers, text)

    def remove(self, environ: dict[str, Any], account_path: AccountPath, name: str) -> Any:
        """Delete an object; return Swift's response, without its body."""
        return own_requests.exchange(self._app, environ, "DELETE", self.path(account_path, name))
