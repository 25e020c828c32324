"""The result of a distribution as an object: one withheld PUT in the caller's name.

The object appears whole, after the last split and merge have succeeded, or not at all: the PUT is
that of a further output of a run (:mod:`storlet_middleware.proxy.stored_outputs`).

All that the request alone can show is checked before any split runs (:meth:`StoredResult.check`):
thousands of runs must not end in a refusal that was known before.  Swift checks rights and quotas
again when the PUT begins.  The rules are decided once, as for each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from swift.common.swob import Response
from swift.proxy.controllers.base import get_account_info, get_container_info

from storlet_middleware import errors, names
from storlet_middleware.errors import StorletError
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.proxy.stored_outputs import StoredOutput
from storlet_middleware.proxy.withheld_put import PutRefused, commit
from storlet_middleware.wsgi import authorization
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest
from storlet_middleware.wsgi.subrequest import SwiftRefusal, path_info
from storlet_middleware.wsgi.swift_paths import SwiftPath

#: Raises for a place where a rule may deny what a storlet stores, or may require another storlet.
RequireOutput = Callable[[RequestContext, SwiftPath], None]


class StoredResult:
    """The object of one distribution; the owner closes it.

    :param require_output: checks the rules of the account.
    """

    def __init__(
        self,
        proxy: Proxy,
        context: RequestContext,
        target: ObjectPath,
        require_output: RequireOutput,
    ) -> None:
        self._proxy = proxy
        self._context = context
        self._environ = context.environ
        own = context.require_operation().path
        self._place = SwiftPath(own.version, own.account, target.container, target.name)
        self._require_output = require_output
        self._request = StorletRequest(
            method="PUT",
            version=own.version,
            account=own.account,
            storlet=names.DISTRIBUTED,
            source=None,
            target=target,
            parameters={},
        )
        self.target = target
        self._output = StoredOutput(proxy, self._environ, self._request, target)

    @property
    def name(self) -> str:
        """``/container/object``, percent-encoded."""
        return self._output.name

    def check(self) -> None:
        """Refuse a target that Swift or a rule would refuse at the end.

        :raises StorletError: the container does not exist, a quota is used up, or a rule refuses.
        :raises SwiftRefusal: the caller may not write there.
        """
        verdict = authorization.authorize(self._environ, self._proxy.app, "PUT", self._place.path)
        if verdict.refusal is not None:
            raise SwiftRefusal(verdict.refusal)
        if verdict.container_status == 404:
            raise StorletError(
                f"output: there is no container {self.target.container}",
                code=errors.TARGET_NOT_FOUND,
            )
        self._require_output(self._context, self._place)
        for reason in self._full():
            raise StorletError(
                f"output {self.name}: {reason}", code=errors.SWIFT_REFUSED, status=413
            )

    def store(self, chunks: Iterator[bytes], metadata: Mapping[str, str]) -> int:
        """Write ``chunks`` into the object, which does not appear yet; their size.

        :raises StorletError: from ``chunks``, or Swift refused the PUT.
        """
        self._output.begin(metadata)
        size = 0
        for chunk in chunks:
            size += len(chunk)
            self._output.write(chunk)
        return size

    def commit(self) -> Response:
        """Let the object appear; Swift's answer.

        :raises StorletError: Swift refused the PUT, or failed.
        """
        put = self._output.require_put()
        try:
            (answer,) = commit([put])
        except PutRefused as refused:
            raise self._output.refusal(refused) from refused
        if answer.status_int // 100 != 2:
            raise self._output.refusal(PutRefused(put, answer))
        return answer

    def close(self) -> None:
        """Break the PUT unless it was committed; may be called twice."""
        self._output.close()

    # --- quotas -----------------------------------------------------------------------------------

    def _full(self) -> Iterator[str]:
        """The quotas that are used up; as Swift's middlewares compare them, for a byte more."""
        environ = {**self._environ, "PATH_INFO": path_info(self._request, self.target)}
        source = names.SWIFT_SOURCE
        container = get_container_info(environ, self._proxy.app, swift_source=source)
        holder = f"the container {self.target.container}"
        if _is_reached(container["meta"].get("quota-bytes"), container.get("bytes")):
            yield f"the quota of bytes of {holder} is used up"
        if _is_reached(container["meta"].get("quota-count"), container.get("object_count")):
            yield f"the quota of objects of {holder} is used up"
        if environ.get("reseller_request") is True:
            return
        account = get_account_info(environ, self._proxy.app, swift_source=source)
        system = account["sysmeta"]
        quota = system.get("quota-bytes", account["meta"].get("quota-bytes"))
        if _is_reached(quota, account.get("bytes")):
            yield "the account's quota of bytes is used up"
        if _is_reached(system.get("quota-count"), account.get("total_object_count")):
            yield "the account's quota of objects is used up"
        policy = container.get("storage_policy")
        used = (account.get("storage_policies") or {}).get(policy) or {}
        if _is_reached(system.get(f"quota-bytes-policy-{policy}"), used.get("bytes", 0)):
            yield "the account's quota of bytes of the storage policy is used up"
        if _is_reached(system.get(f"quota-count-policy-{policy}"), used.get("object_count", 0)):
            yield "the account's quota of objects of the storage policy is used up"


def _is_reached(quota: Any, used: Any) -> bool:
    """Whether ``used`` is at or above a quota; no quota is no number."""
    text = str(quota or "")
    return text.isdigit() and used is not None and int(used) >= int(text)
