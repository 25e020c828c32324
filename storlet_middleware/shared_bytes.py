"""Bytes of one resource of a server process, which all accounts share.

An account has a limit of its own.  If others use the resource, too, it has at most half of what
they leave: with more, a few accounts would take all of it.
"""

from __future__ import annotations

from typing import Final

from storlet_middleware.errors import NodeBusy, TenantBusy

_OF_REST: Final = 2


class SharedBytes:
    """The bytes that each account uses.

    :param account_bytes: limit of each account.
    :param process_bytes: limit of all accounts together.
    :param account_text: the error of an account at its own limit.
    :param process_text: the error of an account to which others leave less.
    """

    def __init__(
        self, account_bytes: int, process_bytes: int, account_text: str, process_text: str
    ) -> None:
        self._account_bytes = account_bytes
        self._process_bytes = process_bytes
        self._account_text = account_text
        self._process_text = process_text
        self._used: dict[str, int] = {}
        self._sum = 0

    @property
    def used_bytes(self) -> int:
        """Bytes of all accounts."""
        return self._sum

    def add(self, account: str, count: int) -> None:
        """Count ``count`` more bytes.

        :raises TenantBusy: the account has its limit.
        :raises NodeBusy: others leave less.
        """
        before = self._used.get(account, 0)
        used, others = before + count, self._sum - before
        if used > self._account_bytes:
            raise TenantBusy(self._account_text)
        if used > (self._process_bytes - others) // (_OF_REST if others else 1):
            raise NodeBusy(self._process_text)
        self._used[account] = used
        self._sum += count

    def remove(self, account: str, count: int) -> None:
        """Reverse of :meth:`add`."""
        left = self._used.get(account, 0) - count
        self._sum -= count
        if left > 0:
            self._used[account] = left
        else:
            self._used.pop(account, None)
