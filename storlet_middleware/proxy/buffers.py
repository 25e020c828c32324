"""Memory of results that wait to be stored: the bytes in the buffers of an account's withheld PUTs.
Pages of listings that its storlets have requested, and have not read, count as well.

A withheld PUT keeps up to a megabyte back (:mod:`~.withheld_put`), with erasure coding several.  An
account may have hundreds of runs in a process, with several results each, so their sum is bounded:

* above half of a limit, the PUTs keep one piece back instead of a whole reserve;
* above the limit, a run that writes more fails with ``tenant.busy``, or ``node.busy`` for the limit
  of all accounts together, and stores nothing.
"""

from __future__ import annotations

from typing import Final

from storlet_middleware.errors import NodeBusy, TenantBusy

_MIB: Final = 1 << 20
#: An account may have this fraction of what others leave: with more, a few accounts would take all.
_OF_REST: Final = 2


class Buffers:
    """The sums of a proxy process.

    :param account_bytes: limit of each account.
    :param process_bytes: limit of all accounts together.
    """

    def __init__(self, account_bytes: int, process_bytes: int) -> None:
        self._account_bytes = account_bytes
        self._process_bytes = process_bytes
        self._used: dict[str, int] = {}
        self._sum = 0

    def share(self, account: str) -> BufferShare:
        """The part of one PUT of ``account``, which has no bytes yet."""
        return BufferShare(self, account)

    def is_short(self, account: str) -> bool:
        """Whether more than half of a limit is used."""
        used = self._used.get(account, 0)
        return 2 * used > self._account_bytes or 2 * self._sum > self._process_bytes

    def add(self, account: str, count: int) -> None:
        """Count ``count`` more bytes.

        :raises TenantBusy: the account has its maximum.
        :raises NodeBusy: the process has its maximum.
        """
        used = self._used.get(account, 0) + count
        if used > self._account_bytes:
            raise TenantBusy(
                "results of the account that wait to be stored, or listings that its storlets have"
                f" not read, fill their {self._account_bytes // _MIB} MiB of memory at this server"
                " (buffer_bytes_per_tenant); retry with fewer runs at a time"
            )
        others = self._sum - self._used.get(account, 0)
        if used > (self._process_bytes - others) // (_OF_REST if others else 1):
            raise NodeBusy(
                "results that wait to be stored, or listings that storlets have not read, fill"
                f" their {self._process_bytes // _MIB} MiB of memory at this server"
                " (buffer_bytes); retry later"
            )
        self._used[account] = used
        self._sum += count

    def remove(self, account: str, count: int) -> None:
        """Reverse of :meth:`add`."""
        self._sum -= count
        left = self._used[account] - count
        if left:
            self._used[account] = left
        else:
            del self._used[account]


class BufferShare:
    """The bytes of one PUT; see :meth:`Buffers.share`."""

    def __init__(self, buffers: Buffers, account: str) -> None:
        self._buffers = buffers
        self._account = account
        self._bytes = 0

    @property
    def is_short(self) -> bool:
        """See :meth:`Buffers.is_short`."""
        return self._buffers.is_short(self._account)

    def add(self, count: int) -> None:
        """See :meth:`Buffers.add`."""
        self._buffers.add(self._account, count)
        self._bytes += count

    def remove(self, count: int) -> None:
        """Give ``count`` bytes back; after :meth:`clear` there are none."""
        count = min(count, self._bytes)
        if count:
            self._bytes -= count
            self._buffers.remove(self._account, count)

    def clear(self) -> None:
        """Give all bytes back; may be called twice."""
        self.remove(self._bytes)
