"""Secrets as objects: one each, in a container with a reserved name.

::

    <account>/\\0storlet-secrets/\\0<name>      JSON of :mod:`~.sealing`

Swift itself keeps clients away from reserved names: each request for one needs a header that the
gatekeeper removes from all requests of clients.  No client can list, read, write, copy, link or
delete these objects, and no listing shows them.  Requests are pre-authorized; the callers of this
module authorize the client first.

Reads request the newest replica, so that a change is in force for the next run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from swift.common.middleware.crypto.crypto_utils import CRYPTO_KEY_CALLBACK
from swift.common.request_helpers import get_reserved_name
from swift.common.utils import drain_and_close
from swift.common.wsgi import make_pre_authed_request

from storlet_middleware import errors, names
from storlet_middleware.account_secrets.sealing import FetchKeys, Sealing
from storlet_middleware.errors import BackendFailed, BadRequest, StorletError
from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.bodies import read_bounded
from storlet_middleware.wsgi.swift_paths import ALLOWS_RESERVED, RESERVED, SwiftPath

#: Bytes of a value.  A shorter one could not be removed from logs, because it may be a part of any
#: text.
LEAST_BYTES: Final = 8
MOST_BYTES: Final = 4096
#: Secrets of an account.
MOST: Final = 100
_CONTAINER: Final = get_reserved_name("storlet-secrets")
_MOST_SEALED_BYTES: Final = 16 << 10
_ALLOWED: Final = {ALLOWS_RESERVED: "true"}


class SecretStore:
    """The secrets of all accounts.

    :param app: the rest of the proxy's pipeline.
    """

    def __init__(self, app: Any, sealing: Sealing) -> None:
        self._app = app
        self._sealing = sealing

    def set(self, environ: dict[str, Any], account: SwiftPath, name: str, value: bytes) -> bool:
        """Store a value; whether the secret is a new one.

        :raises StorletError: the cluster has no key, or Swift does not store it.
        """
        place = _place(account, name)
        answer, fetch = self._send(environ, "HEAD", place, own_requests.NEWEST)
        drain_and_close(answer)
        is_new = bool(answer.status_int == 404)
        if not is_new:
            _require_success(answer, "the secret cannot be looked up")
        sealed = self._sealing.seal(_bound_to(account, name), value, fetch)
        if is_new and len(self.names(environ, account)) >= MOST:
            raise BadRequest(f"the account has {MOST} secrets, which is the maximum: delete one")
        status = self._put(environ, place, sealed)
        if status == 404:
            self._put(environ, place.sibling(_CONTAINER, None), b"")
            status = self._put(environ, place, sealed)
        if status // 100 == 4:
            text = f"Swift does not store the secret, it answered {status}: is a quota used up?"
            raise StorletError(text, code=errors.SWIFT_REFUSED, status=status)
        if status // 100 != 2:
            raise BackendFailed(f"the secret cannot be stored: Swift answered {status}")
        return is_new

    def delete(self, environ: dict[str, Any], account: SwiftPath, name: str) -> bool:
        """Delete a secret; whether there was one."""
        answer, _ = self._send(environ, "DELETE", _place(account, name))
        drain_and_close(answer)
        if answer.status_int == 404:
            return False
        _require_success(answer, "the secret cannot be deleted")
        return True

    def names(self, environ: dict[str, Any], account: SwiftPath) -> dict[str, str]:
        """The names of all secrets, each with the time when it was set."""
        container = account.sibling(_CONTAINER, None).path
        query = {"limit": str(2 * MOST)}
        entries = own_requests.listing(self._app, environ, container, query, headers=_ALLOWED)
        return {
            str(entry["name"]).removeprefix(RESERVED): str(entry.get("last_modified", ""))
            for entry in entries or ()
        }

    def value(self, environ: dict[str, Any], account: SwiftPath, name: str) -> bytes | None:
        """The value of a secret; ``None`` if it is not set.

        :raises StorletError: it cannot be read or decrypted.
        """
        answer, fetch = self._send(environ, "GET", _place(account, name), own_requests.NEWEST)
        if answer.status_int != 200:
            drain_and_close(answer)
        if answer.status_int == 404:
            return None
        _require_success(answer, "a secret cannot be read")
        too_long = BackendFailed("a secret is longer than any that was stored")
        data = read_bounded(answer.app_iter, _MOST_SEALED_BYTES, too_long)
        return self._sealing.open(_bound_to(account, name), data, fetch)

    def _put(self, environ: dict[str, Any], place: SwiftPath, body: bytes) -> int:
        headers = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
        answer, _ = self._send(environ, "PUT", place, headers, body)
        drain_and_close(answer)
        return int(answer.status_int)

    def _send(
        self,
        environ: dict[str, Any],
        method: str,
        place: SwiftPath,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[Any, FetchKeys | None]:
        """Swift's answer, whose body the caller closes, and the keymaster's keys of the object."""
        request = make_pre_authed_request(
            environ,
            method=method,
            path=place.path,
            body=body,
            headers={**(headers or {}), **_ALLOWED},
            swift_source=names.SWIFT_SOURCE,
        )
        answer = request.get_response(self._app)
        return answer, request.environ.get(CRYPTO_KEY_CALLBACK)


def _place(account: SwiftPath, name: str) -> SwiftPath:
    return account.sibling(_CONTAINER, get_reserved_name(name))


def _bound_to(account: SwiftPath, name: str) -> str:
    return f"{account.account}/{name}"


def _require_success(answer: Any, text: str) -> None:
    if answer.status_int // 100 != 2:
        raise BackendFailed(f"{text} now: Swift answered {answer.status_int}")
