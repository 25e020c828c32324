"""Storlets that rules run: one hides a word, one marks what passes, one packs and one unpacks."""

from __future__ import annotations

import gzip
from typing import Any


class Mask:
    """``SECRET`` becomes ``------``; the whole object is in memory, so that no word is cut in two."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        word = params.get("word", "SECRET")
        out_files[0].set_metadata({"masked": "yes"})
        out_files[0].write(in_files[0].read().replace(word.encode(), b"-" * len(word)))
        out_files[0].close()


class Mark:
    """Puts a mark before every line."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        mark = params.get("mark", ">").encode()
        out_files[0].write(b"".join(mark + line for line in in_files[0].read().splitlines(keepends=True)))
        out_files[0].close()


class Pack:
    """Compresses."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        out_files[0].set_metadata({"packed": "gzip"})
        out_files[0].write(gzip.compress(in_files[0].read()))
        out_files[0].close()


class Unpack:
    """Undoes :class:`Pack`."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        out_files[0].set_metadata({"packed": ""})
        out_files[0].write(gzip.decompress(in_files[0].read()))
        out_files[0].close()
