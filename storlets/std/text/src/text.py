"""Small operations on text; each needs memory that does not depend on the size of the object.

All but ``to-utf8`` work on bytes: a line ends with a line feed, a word with ASCII white space.  A
last line without an end gets one, so that outputs of several objects can be concatenated.  Blocks
are counted and split as a whole; there is a step of Python for each line only where lines differ.
``sort`` keeps all lines in memory, up to a bound.
"""

from __future__ import annotations

import codecs
import contextlib
import math
import random
import re
from collections import deque
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from itertools import groupby
from typing import Any

import line_blocks
from parameters import is_true
from refusal import Refusal

#: Bound of the lines that ``sort``, ``tail`` and ``sample`` keep.
MOST_KEPT_BYTES = 32 << 20
#: Bound of the number of lines that ``sort`` keeps: each takes 100 bytes beside its own.
MOST_SORTED_LINES = 1_000_000
#: Bound of the part of a line in an error, in characters.
SHOWN = 40
#: No charsets of stored text; they cannot be decoded piece by piece.
NO_CHARSETS = ("idna", "punycode", "undefined")
SPACE = b" \t\n\r\x0b\x0c"
#: White space becomes a space, and other bytes an x.
SHAPES = bytes(0x20 if byte in SPACE else 0x78 for byte in range(256))
#: Half of a surrogate pair.
HALF = re.compile("[\ud800-\udfff]")
#: The bytes of UTF-8 that do not begin a character.
CONTINUATIONS = bytes(range(0x80, 0xC0))


class TextError(Refusal):
    """The text cannot be processed."""


class Text:
    """See the README for the parameters."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        source, target = in_files[0], out_files[0]
        name, count = params["do"], int(params["count"])
        if len(out_files) > 1 and name != "split":
            raise TextError(f"do={name} has one output: only do=split has more")
        plain = {"Content-Type": "text/plain; charset=utf-8"}
        if name == "to-utf8":
            output = to_utf8(source, params["charset"], params["errors"])
            # The first block before the metadata: an unknown charset has no output at all.
            first = next(output, b"")
            target.set_metadata(plain)
            target.write(first)
        elif name == "wc":
            target.set_metadata(plain)
            output = counts(source)
        elif name == "head":
            output = head(source, count)
        elif name == "tail":
            output = tail(source, count)
        elif name == "sample":
            output = sample(source, count, int(params["seed"]))
        elif name == "sort":
            output = ordered(source, params["by"], is_true(params, "reverse"))
        elif name == "split":
            split(source, out_files, count)
            return
        else:
            output = uniq(source, is_true(params, "counts"))
        for block in output:
            target.write(block)


def ended(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"


# --- charsets -------------------------------------------------------------------------------------


def to_utf8(source: Any, charset: str, errors: str) -> Iterator[bytes]:
    """The text in UTF-8, without a byte order mark."""
    decoder = decoder_of(charset, errors)
    read, is_start = 0, True
    block = b"-"
    while block:
        block = source.read(line_blocks.BLOCK_BYTES)
        pending = decoder.getstate()[0]
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            place = read - len(pending) + error.start
            raise TextError(f"the text is not {charset} at byte {place}: {error.reason}") from error
        read += len(block)
        if is_start and text:
            text, is_start = text.removeprefix("\ufeff"), False
        try:
            output = text.encode()
        except UnicodeEncodeError as error:
            # Some charsets can express it.
            if errors != "replace":
                raise TextError("the text has half of a surrogate pair, no character") from error
            output = HALF.sub("\ufffd", text).encode()
        yield output


def decoder_of(charset: str, errors: str) -> Any:
    """An incremental decoder.

    :raises TextError: there is no such charset.
    """
    if not charset:
        raise TextError("do=to-utf8: the parameter charset is missing, such as iso-8859-8")
    try:
        # Refuses codecs of Python that are no charset, such as zlib.
        with contextlib.suppress(UnicodeError):
            b"x".decode(charset)
        found = codecs.lookup(charset)
    except (LookupError, ValueError) as error:
        raise TextError(f"charset: {charset}: unknown") from error
    if found.name in NO_CHARSETS or found.incrementaldecoder is None:
        raise TextError(f"charset: {charset}: is not for stored text")
    return found.incrementaldecoder("replace" if errors == "replace" else "strict")


# --- counts ---------------------------------------------------------------------------------------


def counts(source: Any) -> Iterator[bytes]:
    """Bytes, characters, lines and words as ``key<TAB>number``, which ``std:sum`` adds."""
    size = characters = lines = words = 0
    is_space = True
    for block in line_blocks.blocks(source):
        size += len(block)
        characters += len(block.translate(None, CONTINUATIONS))
        lines += block.count(b"\n")
        shape = block.translate(SHAPES)
        words += shape.count(b" x") + (is_space and shape.startswith(b"x"))
        is_space = shape.endswith(b" ")
    yield b"bytes\t%d\ncharacters\t%d\nlines\t%d\nwords\t%d\n" % (size, characters, lines, words)


# --- lines ----------------------------------------------------------------------------------------


def head(source: Any, count: int) -> Iterator[bytes]:
    """The first lines; the rest is not read."""
    last = b"\n"
    for block in line_blocks.blocks(source) if count else ():
        here = block.count(b"\n")
        if here >= count:
            rest = block.split(b"\n", count)[-1]
            yield block[: len(block) - len(rest)]
            return
        count -= here
        last = block
        yield block
    yield b"" if last.endswith(b"\n") else b"\n"


def tail(source: Any, count: int) -> Iterator[bytes]:
    """The last lines."""
    kept: deque[bytes] = deque()
    ends = size = 0
    for block in line_blocks.blocks(source):
        kept.append(block)
        size += len(block)
        ends += block.count(b"\n")
        # The first block is needed unless the others have the end of the line before the result.
        while kept and (here := ends - kept[0].count(b"\n")) > count:
            size -= len(kept.popleft())
            ends = here
        if size > MOST_KEPT_BYTES + line_blocks.BLOCK_BYTES:
            raise TextError(f"tail: {count} lines have more than {MOST_KEPT_BYTES} bytes")
    text = b"".join(kept)
    if text and count:
        lines = text.removesuffix(b"\n").rsplit(b"\n", count)
        yield b"\n".join(lines[-count:]) + b"\n"


def uniq(source: Any, is_counted: bool) -> Iterator[bytes]:
    """Each line once that follows itself, or with the number of times."""
    previous: bytes | None = None
    number = 0
    for block in line_blocks.whole_lines(source):
        lines = block.split(b"\n")
        lines.pop()
        if not is_counted:
            unique = [line for line, _ in groupby(lines)]
            if unique[0] == previous:
                unique.pop(0)
            if unique:
                previous = unique[-1]
                yield b"\n".join(unique) + b"\n"
            continue
        output = []
        for line, group in groupby(lines):
            if line != previous:
                if previous is not None:
                    output.append(b"%s\t%d\n" % (previous, number))
                previous, number = line, 0
            number += len(list(group))
        yield b"".join(output)
    if is_counted and previous is not None:
        yield b"%s\t%d\n" % (previous, number)


def ordered(source: Any, by: str, is_reversed: bool) -> Iterator[bytes]:
    """All lines in the order of their bytes or numbers; equal ones in the order of the text."""
    lines: list[bytes] = []
    size = 0
    for block in line_blocks.whole_lines(source):
        size += len(block)
        lines += block.split(b"\n")
        lines.pop()
        if size > MOST_KEPT_BYTES or len(lines) > MOST_SORTED_LINES:
            raise TextError(
                f"sort: the text has more than {MOST_KEPT_BYTES} bytes or {MOST_SORTED_LINES} lines"
            )
    if by == "number":
        numbers = [number_of(line, place) for place, line in enumerate(lines, 1)]
        places = sorted(range(len(lines)), key=numbers.__getitem__, reverse=is_reversed)
        lines = [lines[place] for place in places]
    else:
        lines.sort(reverse=is_reversed)
    if lines:
        yield b"\n".join(lines) + b"\n"


def number_of(line: bytes, place: int) -> Decimal:
    """The number in a line, for example ``-2``, ``3.5`` or ``1e6``.

    :param place: the number of the line.
    :raises TextError: it has no number.
    """
    text = line.decode("ascii", "replace").strip()
    try:
        # Decimal also reads underscores.
        number = Decimal("" if "_" in text else text)
    except InvalidOperation:
        number = Decimal("nan")
    if number.is_nan():
        raise TextError(f"sort: line {place} is no number: {text[:SHOWN]!r}")
    return number


def split(source: Any, targets: list[Any], count: int) -> None:
    """Write the first ``count`` lines to the first output, the next to the second, and so on; the
    last output has the rest.
    """
    if not count:
        raise TextError("split: count: want 1 line or more for each output")
    for target in targets:
        target.set_metadata({})
    place, left = 0, count
    last = b"\n"
    for block in line_blocks.blocks(source):
        rest = last = block
        while place < len(targets) - 1 and rest.count(b"\n") >= left:
            after = rest.split(b"\n", left)[-1]
            targets[place].write(rest[: len(rest) - len(after)])
            rest, place, left = after, place + 1, count
        if place < len(targets) - 1:
            left -= rest.count(b"\n")
        targets[place].write(rest)
    if not last.endswith(b"\n"):
        targets[place].write(b"\n")


def sample(source: Any, count: int, seed: int) -> Iterator[bytes]:
    """Lines chosen at random, each set of ``count`` with the same chance, in their order."""
    reservoir = Reservoir(count, seed)
    start = 0
    for block in line_blocks.whole_lines(source) if count else ():
        number = block.count(b"\n")
        if reservoir.next < start + number:
            lines = block.split(b"\n")
            while reservoir.next < start + number:
                reservoir.take(lines[reservoir.next - start])
        start += number
    yield b"".join(line + b"\n" for _, line in sorted(reservoir.lines))


class Reservoir:
    """Sampling with skips: after the first ``count`` lines, chance decides how many lines to pass
    over, and so the others cost nothing.

    :ivar next: the number of the next line to take.
    """

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._chance = random.Random(seed)
        self._weight = 1.0
        self._size = 0
        self.lines: list[tuple[int, bytes]] = []
        self.next = 0

    def take(self, line: bytes) -> None:
        """Keep the line with the number ``next``, instead of another one if there are enough."""
        entry = (self.next, line)
        if len(self.lines) < self._count:
            self.lines.append(entry)
        else:
            place = int(self._chance.random() * self._count)
            self._size -= len(self.lines[place][1])
            self.lines[place] = entry
        self._size += len(line)
        if self._size > MOST_KEPT_BYTES:
            raise TextError(f"sample: {self._count} lines have more than {MOST_KEPT_BYTES} bytes")
        self.next += 1
        if len(self.lines) == self._count:
            self._weight *= math.exp(self._logarithm() / self._count)
            # Rounding must not make it 1, which has no logarithm of its complement, or 0.
            self._weight = min(max(self._weight, 1e-300), 1 - 2**-53)
            self.next += int(self._logarithm() / math.log1p(-self._weight))

    def _logarithm(self) -> float:
        """Of a random number above 0."""
        return math.log(1.0 - self._chance.random())
