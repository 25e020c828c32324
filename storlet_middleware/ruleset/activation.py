"""Brings rules into force, or removes them: a crash-safe order of writes, under a lock.

::

    lock --> store version --> rules.yaml --> pointer --> unlock

The pointer is written last.  After an interruption at any point, either the old or the new rules
are in force, and complete.  Concurrent changes of an account's rules are refused with a conflict,
if a memcached is available as a lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from swift.common.swob import Request, Response

from rules import parse
from storlet_middleware.errors import BackendFailed, RulesConflict
from storlet_middleware.ruleset.pointer import Pointer, Pointers
from storlet_middleware.ruleset.versions import RULES, Versions
from storlet_middleware.wsgi import change_lock
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import AccountPath

#: Longer than a successful change takes.
_LOCK_SECONDS: Final = 60
_UNCERTAIN: Final = (
    "the rules could not be brought into force, and it is uncertain which rules are: try again"
)


class Activation:
    """The writes of one change of an account's rules.

    :param account_path: API version and account.
    """

    def __init__(
        self,
        pointers: Pointers,
        versions: Versions,
        logger: Any,
        environ: dict[str, Any],
        account_path: AccountPath,
    ) -> None:
        self._pointers = pointers
        self._versions = versions
        self._logger = logger
        self._environ = environ
        self._account_path = account_path

    def activate(
        self, rules: bytes, headers: Mapping[str, str], *, is_mandatory: bool
    ) -> tuple[Pointer, dict[str, str]]:
        """Store ``rules`` and bring them into force.

        Returns the pointer, and the headers of the stored ``rules.yaml`` for the client.

        :param headers: of ``rules.yaml``.
        """
        environ, account_path, versions = self._environ, self._account_path, self._versions
        with self.locked():
            before = self._pointers.fresh(environ, *account_path)
            pointer = Pointer.to(parse.version_of(rules), is_mandatory=is_mandatory, after=before)
            answer = versions.write(environ, account_path, pointer.name, rules, {})
            if answer.status_int // 100 != 2:
                raise self._refusal(answer.status_int)
            answer = versions.write(environ, account_path, RULES, rules, headers)
            if answer.status_int // 100 != 2:
                versions.remove(environ, account_path, pointer.name)
                raise self._refusal(answer.status_int)
            try:
                self._set(pointer, before)
            except BackendFailed:
                self._restore(before)
                raise
            self._log("in force", pointer)
            return pointer, {
                name: answer.headers[name]
                for name in ("Etag", "Last-Modified")
                if name in answer.headers
            }

    def in_force(self) -> Pointer | None:
        """The pointer now, bypassing the caches; for use under the lock."""
        return self._pointers.fresh(self._environ, *self._account_path)

    def deactivate(self, before: Pointer) -> None:
        """Remove the rules that ``before`` points to, under the lock."""
        self._set(Pointer.to_none(after=before), before)
        self._log("removed", before)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the account's rules; raise :class:`RulesConflict` if another request holds them."""
        conflict = RulesConflict(
            "another request is changing the rules of this account: try again", retry_after=1
        )
        key = f"storlets-rules-change/{self._account_path.account}"
        with change_lock.held(self._environ, key, _LOCK_SECONDS, conflict):
            yield

    def _set(self, pointer: Pointer, before: Pointer | None) -> None:
        """Write the pointer; if Swift reports a failure, undo it, as some replicas can have it."""
        status = self._pointers.set(self._environ, *self._account_path, pointer)
        if status // 100 == 2:
            return
        undo = (
            before.renewed(after=pointer) if before is not None else Pointer.to_none(after=pointer)
        )
        if self._pointers.set(self._environ, *self._account_path, undo) // 100 != 2:
            raise BackendFailed(_UNCERTAIN)
        raise BackendFailed(
            f"the rules could not be brought into force: Swift returned {status};"
            " the previous rules stay in force"
        )

    def _restore(self, before: Pointer | None) -> None:
        """Restore the content of ``rules.yaml``; it is informational, so failures are ignored."""
        if before is None or not before.version:
            self._versions.remove(self._environ, self._account_path, RULES)
            return
        with contextlib.suppress(BackendFailed):
            rules = self._versions.text_of(self._environ, self._account_path, before)
            self._versions.write(self._environ, self._account_path, RULES, rules, {})

    def _refusal(self, status: int) -> SwiftRefusal:
        """Swift's status for a sub-request, as a response to the client."""
        return SwiftRefusal(Response(status=status, request=Request(self._environ)))

    def _log(self, what: str, pointer: Pointer) -> None:
        self._logger.info(
            "rules %s account=%s version=%s", what, quote(self._account_path.account), pointer.name
        )
