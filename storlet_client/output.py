"""The output of a storlet, or an object, as a stream of bytes or lines.

An output that ends before its end raises :class:`~storlet_client.BrokenAnswer`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import httpx

from storlet_client.errors import BrokenAnswer
from storlet_client.exchange import Answer

#: The longest silence in an output.  A storlet that works without output sends no bytes for a long
#: time; the server limits that.
READ_SECONDS = 3600.0


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
            raise _broken(error) from error

    def lines(self) -> Iterator[str]:
        """Lines of UTF-8 without their ends."""
        yield from _lines(self)

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
            raise _broken(error) from error

    async def lines(self) -> AsyncIterator[str]:
        """Lines of UTF-8 without their ends."""
        splitter = _Lines()
        async for chunk in self:
            for line in splitter.feed(chunk):
                yield line
        for line in splitter.end():
            yield line

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


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    splitter = _Lines()
    for chunk in chunks:
        yield from splitter.feed(chunk)
    yield from splitter.end()


def _broken(error: httpx.HTTPError) -> BrokenAnswer:
    if isinstance(error, httpx.ReadTimeout):
        return BrokenAnswer(f"the output is incomplete: no byte for {READ_SECONDS:.0f} s")
    reason = str(error) or type(error).__name__
    return BrokenAnswer(f"the output is incomplete: {reason}")
