"""Count lines, words and bytes, and list the most frequent words.

Parameters::

    top   number of words to list       default: 10

A word is the text between ASCII white space; case and punctuation matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

CHUNK_BYTES = 256 * 1024
LONGEST_WORD_BYTES = 64 * 1024


class WordCount:
    """Reads a whole object, writes a few lines; memory use depends only on the number of words."""

    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        """Write the three counts and the list; the counts are also the result's metadata."""
        top = int(params.get("top", "10"))
        counts: Counter[bytes] = Counter()
        totals = {"lines": 0, "words": 0, "bytes": 0}
        for text in whole_words(in_files[0], totals):
            counts.update(text.split())
        totals["words"] = counts.total()
        target = out_files[0]
        target.set_metadata(
            {"Content-Type": "text/plain; charset=utf-8"}
            | {k.title(): str(v) for k, v in totals.items()}
        )
        target.write("".join(f"{number:10d} {what}\n" for what, number in totals.items()).encode())
        # Equal counts are sorted by word, so that the same input always gives the same bytes.
        ranking = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:top]
        target.write(b"".join(b"%10d %s\n" % (number, word) for word, number in ranking))


def whole_words(source: Any, totals: dict[str, int]) -> Iterator[bytes]:
    """Pieces of the input that never end inside a word; adds lines and bytes to ``totals``."""
    rest = b""
    while chunk := source.read(CHUNK_BYTES):
        totals["bytes"] += len(chunk)
        totals["lines"] += chunk.count(b"\n")
        text = rest + chunk
        words = text.rsplit(maxsplit=1) if not text[-1:].isspace() else [text, b""]
        rest = words[-1]
        if len(rest) > LONGEST_WORD_BYTES:
            raise ValueError(f"a word of more than {LONGEST_WORD_BYTES} bytes: this is not text")
        yield b"".join(words[:-1])
    yield rest
