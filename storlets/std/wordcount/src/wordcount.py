"""Counts each word of a text: a line for each word, ``word<TAB>number``, sorted by the bytes of the
words.

A word is the text between ASCII white space.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from parameters import is_true
from refusal import Refusal

CHUNK_BYTES = 256 * 1024
LONGEST_WORD_BYTES = 64 * 1024


class WordCount:
    """Its memory depends on the number of different words only."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        is_folded = is_true(params, "ignore-case")
        counts: Counter[bytes] = Counter()
        for text in whole_words(in_files[0]):
            counts.update((text.lower() if is_folded else text).split())
        out_files[0].set_metadata({"Content-Type": "text/plain; charset=utf-8"})
        out_files[0].write(b"".join(b"%s\t%d\n" % each for each in sorted(counts.items())))


def whole_words(source: Any) -> Iterator[bytes]:
    """Pieces of the input that never end inside a word."""
    rest = b""
    while chunk := source.read(CHUNK_BYTES):
        text = rest + chunk
        words = text.rsplit(maxsplit=1) if not text[-1:].isspace() else [text, b""]
        rest = words[-1]
        if len(rest) > LONGEST_WORD_BYTES:
            raise Refusal(f"a word of more than {LONGEST_WORD_BYTES} bytes: this is not text")
        yield b"".join(words[:-1])
    yield rest
