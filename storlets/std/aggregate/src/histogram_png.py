"""A histogram as a picture in PNG, with the bars of the picture in SVG.

There is no font: the figures of the axes have a form here, and the words of the SVG, which may be
any text, are in the text chunks of the file (``Title``, ``Description``).
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from figures import json_text
from histogram_picture import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MOST_LABELS,
    MOST_NUMBER,
    RIGHT,
    TOP,
    WIDTH,
    caption,
    shown,
)

SIGNATURE = b"\x89PNG\r\n\x1a\n"
WHITE, BLUE, BLACK = 0, 1, 2
PALETTE = bytes.fromhex("ffffff 4878a8 000000")
#: Five rows of three dots for each character of a number.
GLYPHS = {
    "0": "111101101101111", "1": "010110010010111", "2": "111001111100111",
    "3": "111001111001111", "4": "101101111001001", "5": "111100111001111",
    "6": "111100111101111", "7": "111001001001001", "8": "111101111101111",
    "9": "111101111001111", "-": "000000111000000", "+": "000010111010000",
    ".": "000000000000010", "E": "111100111100111", "\u2026": "000000000000101",
}  # fmt: skip
GLYPH_WIDTH, GLYPH_HEIGHT = 3, 5
#: Pixels of a dot, and of a character with the space after it.
DOT = 2
ADVANCE = (GLYPH_WIDTH + 1) * DOT
#: A bar of fewer pixels has no gap to the next one.
LEAST_WITH_GAP = 4


class Canvas:
    """Pixels, each a number in the palette."""

    def __init__(self) -> None:
        self.rows = [bytearray(WIDTH) for _ in range(HEIGHT)]

    def fill(self, left: int, top: int, right: int, bottom: int, colour: int) -> None:
        """A rectangle without its right and bottom edge."""
        for row in self.rows[top:bottom]:
            row[left:right] = bytes((colour,)) * max(0, right - left)

    def write(self, left: int, top: int, words: str) -> None:
        """The characters that have a form; others are a space."""
        for place, char in enumerate(words):
            for number, dot in enumerate(GLYPHS.get(char.upper(), "")):
                if dot == "1":
                    y, x = divmod(number, GLYPH_WIDTH)
                    x, y = left + place * ADVANCE + x * DOT, top + y * DOT
                    self.fill(x, y, x + DOT, y + DOT, BLACK)


def png_of(facts: dict[str, Any]) -> bytes:
    """The picture of a report that has a histogram."""
    bins = facts["histogram"]["bins"]
    high, base = HEIGHT - TOP - BOTTOM, HEIGHT - BOTTOM
    most = max(each["count"] for each in bins)
    canvas = Canvas()
    edges = [LEFT + (WIDTH - LEFT - RIGHT) * place // len(bins) for place in range(len(bins) + 1)]
    for each, left, right in zip(bins, edges, edges[1:]):
        # A bin that is not empty has at least one row.
        tall = -(-high * each["count"] // most) if most else 0
        gap = int(right - left >= LEAST_WITH_GAP)
        canvas.fill(left + gap, base - tall, right, base, BLUE)
    canvas.fill(LEFT, TOP, LEFT + 1, base + 1, BLACK)
    canvas.fill(LEFT, base, WIDTH - RIGHT, base + 1, BLACK)
    for words, y in ((str(most), TOP), ("0", base)):
        cut = shown(words, LEFT // ADVANCE - 1)
        canvas.write(LEFT - 4 - len(cut) * ADVANCE, y - GLYPH_HEIGHT * DOT // 2, cut)
    values = [each["from"] for each in bins] + [bins[-1]["to"]]
    every = -(-len(values) // min(MOST_LABELS, 6))
    for value, x in list(zip(values, edges))[::every]:
        label = shown(json_text(value), MOST_NUMBER)
        left = min(max(x - len(label) * ADVANCE // 2, 0), WIDTH - len(label) * ADVANCE)
        canvas.write(left, base + 8, label)
    return encoded(canvas, {"Title": str(facts["column"]), "Description": caption(facts)})


def encoded(canvas: Canvas, texts: dict[str, str]) -> bytes:
    """The file: 8 bits for each pixel, with a palette."""
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 3, 0, 0, 0)
    # Each row begins with the number of its filter: none.
    data = zlib.compress(b"".join(b"\0" + row for row in canvas.rows), 9)
    parts = [SIGNATURE, chunk(b"IHDR", header), chunk(b"PLTE", PALETTE)]
    for name, text in texts.items():
        # Not compressed, and without a language.
        body = text.replace("\0", "\ufffd").encode("utf-8", "replace")
        parts.append(chunk(b"iTXt", name.encode() + b"\0\0\0\0\0" + body))
    return b"".join((*parts, chunk(b"IDAT", data), chunk(b"IEND", b"")))


def chunk(kind: bytes, body: bytes) -> bytes:
    checksum = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)
