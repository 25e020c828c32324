"""The lines of a block that match a pattern.

The pattern is searched in each line without its line break, that is ``\\r`` and ``\\n`` at its end.
A call of Python for each line would dominate the cost, so where the result is the same, a whole
block is searched, and calls are made for lines that match only:

* Plain texts, such as ``WARN|ERROR``, are found by ``memmem`` of the C library, which needs half
  the time of ``bytes.find``.
* An expression is searched in the block with ``re.MULTILINE``.  This finds all lines if each match
  within a line is one within the block, too (:func:`is_fit_for_blocks`).  If a match may have a
  line feed, the line where it begins is searched, too.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

try:
    from re import _parser as parser
except ImportError:  # before Python 3.11
    import sre_parse as parser

Spans = Iterator[tuple[int, int]]
#: Start and end of each line of a block that matches; the block ends with a line feed.
Matcher = Callable[[bytes], Spans]

LINE_FEED = 10
#: Bytes of an expression that is not one plain text, or several with | between them.
SPECIAL = re.compile(rb"[^\w\s,:;=<>@/'\"%!_|-]")
#: Classes with the line feed.
CLASSES = ("CATEGORY_SPACE", "CATEGORY_NOT_DIGIT", "CATEGORY_NOT_WORD")
#: They hold at the ends of a line as at the ends of a text, with ``re.MULTILINE``.
PLACES = ("AT_BEGINNING", "AT_END", "AT_BOUNDARY")
#: Flags such as (?i) at the start of an expression.
WHOLE_FLAGS = re.compile(rb"\(\?[aiLmsux]+\)")
#: An expression whose matches are longer may take a time that is quadratic in that of a line.
MOST_WIDTH = 1000
#: Places from which a part of the search of a long line begins.
STARTS = 64
#: A call takes less than a millisecond, so it keeps the lock of the interpreter.
_memmem = ctypes.PyDLL(None).memmem
_memmem.restype = ctypes.c_void_p
_memmem.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]


class Search(NamedTuple):
    """The search for a pattern.

    :ivar line: finds the same in one line; ``None``: the time of ``find`` does not depend on the
        text.
    :ivar long_line: whether a long line, without its end, matches; signals interrupt it.  ``None``:
        ``find`` needs a time that is linear in the length of a line.
    """

    find: Matcher
    line: re.Pattern[bytes] | None = None
    long_line: Callable[[bytes], bool] | None = None


def search_of(pattern: str, *, is_fixed: bool, ignores_case: bool) -> Search:
    """The search for a pattern.

    :raises re.error: it is no regular expression.
    """
    text = pattern.encode()
    flags = re.IGNORECASE if ignores_case else 0
    line = re.compile(re.escape(text) if is_fixed else text, flags)
    long_line = None if is_fixed else long_line_search(text, line)
    if b"\n" in text or b"\r" in text:
        return Search(lambda block: by_lines(line, block), line, long_line)
    if is_fixed or not SPECIAL.search(text):
        folded = text.lower() if ignores_case else text
        texts = [folded] if is_fixed else folded.split(b"|")

        def find(block: bytes) -> Spans:
            searched = block.lower() if ignores_case else block
            return by_text(texts[0], searched) if len(texts) == 1 else by_texts(texts, searched)

        return Search(find)
    if not is_fit_for_blocks(text, flags):
        return Search(lambda block: by_lines(line, block), line, long_line)
    whole = re.compile(text, flags | re.MULTILINE)
    by_block = by_exact_block if is_within_lines(text, flags) else by_checked_block

    def search(block: bytes) -> Spans:
        # At the end of a line, $ does not match before \r.
        return by_lines(line, block) if b"\r" in block else by_block(line, whole, block)

    return Search(search, line, long_line)


def long_line_search(text: bytes, line: re.Pattern[bytes]) -> Callable[[bytes], bool] | None:
    """The search of a long line in parts, between which signals are handled.

    The matcher looks for signals after some thousand steps from one start.  A repetition such as
    ``a*`` is one step of any length, so ``a*b`` has a few steps from each start, and a search of
    the whole line is never interrupted.
    """
    if parser.parse(text, line.flags & re.IGNORECASE).getwidth()[1] <= MOST_WIDTH:
        return None
    # Flags for the whole expression stand at its start only.
    flags = line.flags & ~re.UNICODE
    inner = WHOLE_FLAGS.sub(b"", text)
    if flags & re.VERBOSE or WHOLE_FLAGS.match(inner):
        return lambda content: any(line.match(content, at) for at in range(len(content) + 1))
    some = re.compile(b"(?s:.{0,%d}?)(?:%s)" % (STARTS - 1, inner), flags)
    return lambda content: any(some.match(content, at) for at in range(0, len(content) + 1, STARTS))


def by_lines(line: re.Pattern[bytes], block: bytes) -> Spans:
    """Search line by line."""
    search, start = line.search, 0
    for text in block.split(b"\n")[:-1]:
        end = start + len(text) + 1
        if search(text.rstrip(b"\r")):
            yield start, end
        start = end


def by_text(text: bytes, block: bytes) -> Spans:
    """Find a plain text without line breaks."""
    find, rfind, size, end = block.find, block.rfind, len(block), 0
    search = searcher(block)
    while 0 <= (place := search(text, end)) < size:
        start = rfind(b"\n", end, place) + 1 or end
        end = find(b"\n", place) + 1
        yield start, end


def by_texts(texts: list[bytes], block: bytes) -> Spans:
    """Find any of several plain texts without line breaks."""
    find, rfind, size, end = block.find, block.rfind, len(block), 0
    search = searcher(block)
    # The next place of each text; -1 is not known yet.
    places = [-1] * len(texts)
    while True:
        for number, place in enumerate(places):
            if place < end:
                found = search(texts[number], end)
                places[number] = size if found < 0 else found
        if (place := min(places)) >= size:
            return
        start = rfind(b"\n", end, place) + 1 or end
        end = find(b"\n", place) + 1
        yield start, end


def searcher(block: bytes) -> Callable[[bytes, int], int]:
    """A function with the results of ``block.find``, for places within the block.

    The caller keeps the block.
    """
    base, size = ctypes.cast(block, ctypes.c_void_p).value or 0, len(block)

    def search(text: bytes, start: int) -> int:
        found = _memmem(base + start, size - start, text, len(text))
        return -1 if found is None else int(found) - base

    return search


def by_exact_block(_line: re.Pattern[bytes], whole: re.Pattern[bytes], block: bytes) -> Spans:
    """Search the block; no match has a line feed."""
    search, find, rfind, size, end = whole.search, block.find, block.rfind, len(block), 0
    while (match := search(block, end)) and (place := match.start()) < size:
        start = rfind(b"\n", end, place) + 1 or end
        end = find(b"\n", place) + 1
        yield start, end


def by_checked_block(line: re.Pattern[bytes], whole: re.Pattern[bytes], block: bytes) -> Spans:
    """Search the block, and then each line where a match begins."""
    for start, end in by_exact_block(line, whole, block):
        if line.search(block[start : end - 1]):
            yield start, end


def is_fit_for_blocks(text: bytes, flags: int) -> bool:
    """Whether each match within a line is one within the block, too, and a search never runs
    through many lines.

    The second holds if nothing that is repeated can be a line feed.  Negative assertions, the ends
    of the whole text, and repetitions that do not give back are not fit.
    """
    parsed = parser.parse(text, flags)
    is_plain = not parsed.state.flags & (re.DOTALL | re.LOCALE)
    return is_plain and all(_is_fit(*each, is_repeated=False) for each in parsed)


def is_within_lines(text: bytes, flags: int) -> bool:
    """Whether nothing in the expression can be a line feed."""
    return all(_is_fit(*each, is_repeated=True) for each in parser.parse(text, flags))


def _is_fit(code: Any, value: Any, *, is_repeated: bool) -> bool:
    """One node of a parsed expression; those of later versions of Python are not fit."""
    name = str(code)
    if name == "ANY":
        return True
    if name in ("LITERAL", "NOT_LITERAL"):
        return not is_repeated or (value == LINE_FEED) != (name == "LITERAL")
    if name == "IN":
        return not is_repeated or not _has_line_feed(value)
    if name == "AT":
        return str(value) in PLACES
    if name == "GROUPREF":
        return not is_repeated
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        _, most, inner = value
        nested, is_repeated = [inner], is_repeated or most > 1
    elif name == "BRANCH":
        nested = value[1]
    elif name == "SUBPATTERN":
        _, added, removed, inner = value
        if (added | removed) & ~re.IGNORECASE:
            return False
        nested = [inner]
    elif name == "ASSERT":
        nested = [value[1]]
    else:
        return False
    return all(_is_fit(*each, is_repeated=is_repeated) for inner in nested for each in inner)


def _has_line_feed(members: Any) -> bool:
    """Whether a set such as ``[^a-z]`` has the line feed."""
    is_negated = has = False
    for code, value in members:
        name = str(code)
        if name == "NEGATE":
            is_negated = True
        elif name == "LITERAL":
            has |= value == LINE_FEED
        elif name == "RANGE":
            has |= value[0] <= LINE_FEED <= value[1]
        else:
            has |= name != "CATEGORY" or str(value) in CLASSES
    return has is not is_negated
