"""One request of an account: token, retries and errors.

A request that fails with 5xx or 429 is repeated if its body can be sent again; a repetition of each
request of Swift has the same effect.  Any other 4xx is never repeated, and a token that is refused
is renewed once.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

from storlet_client.errors import ConfigurationError, Refused, without_credentials
from storlet_client.exchange import Answer, Call, Flow, Pause
from storlet_client.login import Account, Credentials

#: Attempts for one call, and the limits of a pause between two, in seconds.
ATTEMPTS = 4
_FIRST_SECONDS = 0.5
_MOST_SECONDS = 30.0
#: The start of an absolute URL with a host and a path.
_URL = re.compile(r"https?://([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d+)?/[^/]")
#: A description of the cluster is kept this long: a process may run longer than a release.
_CLUSTER_SECONDS = 600.0
_RETRIED = frozenset((429, 500, 502, 503, 504))


class Session:
    """The account of some credentials; it logs in before the first request."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._account: Account | None = None
        #: The description of the cluster, and when it was read; any thread may set it.
        self._described: tuple[Any, float] = (None, 0.0)

    @property
    def cluster(self) -> Any:
        """The description of the cluster, if an operation has read it some minutes ago at most."""
        cluster, read = self._described
        return cluster if time.monotonic() < read + _CLUSTER_SECONDS else None

    @cluster.setter
    def cluster(self, cluster: Any) -> None:
        self._described = (cluster, time.monotonic())

    def account(self) -> Flow[Account]:
        """Log in if necessary.

        :raises ConfigurationError: the URL of the account is none.
        """
        if self._account is None:
            account = yield from self._credentials.log_in()
            if not _URL.match(account.url):
                url = without_credentials(account.url)
                fault = f"{url!r} is not the URL of an account: want https://HOST/v1/ACCOUNT"
                raise ConfigurationError([fault])
            self._account = account
        return self._account

    def exchange(self, call: Call, accept: tuple[int, ...] = ()) -> Flow[Answer]:
        """The answer to ``call``, which succeeded or has a status of ``accept``.

        :raises Refused: it failed, after the retries.
        """
        has_renewed, attempt = False, 1
        while True:
            account = yield from self.account()
            answer = yield prepared(call, account)
            if answer.status // 100 == 2 or answer.status in accept:
                return answer
            error = Refused(str(call), answer.status, answer.headers, answer.text)
            can_renew = self._credentials.can_renew and call.can_repeat and not has_renewed
            if answer.status == 401 and can_renew and not error.code:
                self._account, has_renewed = None, True
                continue
            pause = _pause(call, error, attempt)
            if pause is None:
                raise error
            yield pause
            attempt += 1


def prepared(call: Call, account: Account) -> Call:
    """``call`` with its URL and the token.

    :raises ConfigurationError: a name is empty, so that the request would be one for the container
        of the object, or for the account of the container.
    """
    if call.url:
        return call
    if "" in call.path:
        raise ConfigurationError([f"{call}: the name of the container or of the object is empty"])
    headers = {"X-Auth-Token": account.token, **call.headers}
    return replace(call, url=call.target(account.url), query=(), headers=headers)


def _pause(call: Call, error: Refused, attempt: int) -> Pause | None:
    """The pause before the next attempt; ``None`` if there is none."""
    is_retried = error.status in _RETRIED and call.can_repeat
    if not is_retried or attempt == ATTEMPTS:
        return None
    if error.code.startswith("storlet."):
        return None  # with legacy statuses, 5xx is also the status of a storlet's failure
    seconds = error.retry_after
    if seconds is None:
        seconds = _FIRST_SECONDS * 2.0 ** (attempt - 1)
    if seconds > _MOST_SECONDS:
        return None
    return Pause(seconds, f"{error.status} {error.code}".strip())
