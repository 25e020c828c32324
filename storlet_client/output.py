"""The output of a storlet, or an object, as a stream of bytes, lines or records.

An output that ends before its end raises :class:`~storlet_client.BrokenAnswer`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import httpx

from storlet_client import structure
from storlet_client.errors import BrokenAnswer, ConfigurationError, without_number
from storlet_client.exchange import Answer
from storlet_client.structure import Structure, StructureError

#: The longest silence in an output.  A storlet that works without output sends no bytes for a long
#: time; the server limits that.
READ_SECONDS = 3600.0

#: The value of each field by its name.
Record = dict[str, Any]


class _Facts:
    """The headers of an output."""

    def __init__(self, answer: Answer) -> None:
        self.headers = answer.headers
        self._response: Any = answer.stream

    @property
    def metadata(self) -> dict[str, str]:
        """The user metadata that the storlet set, by lower-case name."""
        prefix = "x-object-meta-"
        return {k[len(prefix) :]: v for k, v in self.headers.items() if k.startswith(prefix)}

    @property
    def invocation(self) -> str:
        """The id of the invocation."""
        return self.headers.get("x-storlet-invocation", "")

    @property
    def ran_on(self) -> str:
        """``object`` or ``proxy``; empty if nothing ran."""
        return self.headers.get("x-storlet-ran-on", "")

    @property
    def usage(self) -> str:
        """CPU time, memory and bytes, if the server sent them."""
        return self.headers.get("x-storlet-usage", "")

    @property
    def length(self) -> int | None:
        """Bytes of the output, if they are known."""
        value = self.headers.get("content-length", "")
        return int(value) if value.isdecimal() else None


class Output(_Facts):
    """The output of a storlet, or an object, as a stream."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._response.iter_raw()
        except httpx.HTTPError as error:
            raise _broken(error, self.invocation) from error

    def lines(self) -> Iterator[str]:
        """Lines of UTF-8 without their ends."""
        yield from lines_of(self)

    def records(self, struct: str) -> Iterator[Record]:
        """Records of one length, one at a time, as mappings of field to value.

        :param struct: the fields of a record, such as ``i4 id, s96 text``; see
            :mod:`~storlet_client.structure`.
        :raises ConfigurationError: it is not valid; nothing is read then.
        :raises BrokenAnswer: at the next record: the output is incomplete, or ends in a record.
        """
        return self.records_of(layout_of(struct))

    def records_of(self, layout: Structure) -> Iterator[Record]:
        """:meth:`records` with a layout."""
        splitter = _Records(layout)
        for chunk in self:
            yield from splitter.feed(chunk)
        splitter.end()

    def read(self) -> bytes:
        """The whole output."""
        return b"".join(self)


class AsyncOutput(_Facts):
    """The output of a storlet, or an object, as a stream."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except httpx.HTTPError as error:
            raise _broken(error, self.invocation) from error

    async def lines(self) -> AsyncIterator[str]:
        """Lines of UTF-8 without their ends."""
        splitter = _Lines()
        async for chunk in self:
            for line in splitter.feed(chunk):
                yield line
        for line in splitter.end():
            yield line

    def records(self, struct: str) -> AsyncIterator[Record]:
        """Records of one length; see :meth:`Output.records`."""
        return self.records_of(layout_of(struct))

    async def records_of(self, layout: Structure) -> AsyncIterator[Record]:
        """:meth:`records` with a layout."""
        splitter = _Records(layout)
        async for chunk in self:
            for record in splitter.feed(chunk):
                yield record
        splitter.end()

    async def read(self) -> bytes:
        """The whole output."""
        return b"".join([chunk async for chunk in self])


class _Lines:
    """Splits chunks into lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        first, *others = chunk.split(b"\n")
        self._rest.append(first)
        if not others:
            return []
        whole = [b"".join(self._rest), *others[:-1]]
        self._rest = [others[-1]]
        return [line.decode("utf-8") for line in whole]

    def end(self) -> list[str]:
        rest = b"".join(self._rest)
        return [rest.decode("utf-8")] if rest else []


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines of UTF-8 without their ends."""
    splitter = _Lines()
    for chunk in chunks:
        yield from splitter.feed(chunk)
    yield from splitter.end()


class _Records:
    """Splits chunks into records."""

    def __init__(self, layout: Structure) -> None:
        self._layout = layout
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """The records that are complete with ``chunk``."""
        data = self._rest + chunk
        whole = len(data) - len(data) % self._layout.size
        self._rest = data[whole:]
        for values in self._layout.packing.iter_unpack(memoryview(data)[:whole]):
            yield self._layout.as_mapping(values)

    def end(self) -> None:
        """Raise if the output ends within a record."""
        if self._rest:
            raise BrokenAnswer(
                f"the output is incomplete: its last record has {len(self._rest)} of"
                f" {self._layout.size} bytes"
            )


def layout_of(struct: str) -> Structure:
    """The layout of a description.

    :raises ConfigurationError: it is not valid.
    """
    try:
        return structure.parse(struct)
    except StructureError as error:
        raise ConfigurationError([str(error)]) from None


def _broken(error: httpx.HTTPError, invocation: str) -> BrokenAnswer:
    # asyncio has no text for a connection that breaks off.
    reason = without_number(error) or "the connection broke off"
    if isinstance(error, httpx.ReadTimeout):
        reason = f"no byte for {READ_SECONDS:.0f} s"
    return BrokenAnswer(f"the output is incomplete: {reason}", invocation)
