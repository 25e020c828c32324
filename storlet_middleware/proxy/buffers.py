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

from storlet_middleware.shared_bytes import SharedBytes

_MIB: Final = 1 << 20


class Buffers(SharedBytes):
    """The sums of a proxy process.

    :param account_bytes: limit of each account.
    :param process_bytes: limit of all accounts together.
    """

    def __init__(self, account_bytes: int, process_bytes: int) -> None:
        super().__init__(
            account_bytes,
            process_bytes,
            "results of the account that wait to be stored, or listings that its storlets have"
            f" not read, fill their {account_bytes // _MIB} MiB of memory at this server"
            " (buffer_bytes_per_tenant); retry with fewer runs at a time",
            "results that wait to be stored, or listings that storlets have not read, fill"
            f" their {process_bytes // _MIB} MiB of memory at this server"
            " (buffer_bytes); retry later",
        )

    def share(self, account: str) -> BufferShare:
        """The part of one PUT of ``account``, which has no bytes yet."""
        return BufferShare(self, account)

    def is_short(self, account: str) -> bool:
        """Whether more than half of a limit is used."""
        used = self._used.get(account, 0)
        return 2 * used > self._account_bytes or 2 * self._sum > self._process_bytes


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
