"""Storlets that rules run: mask a word, mark lines, pack, unpack, report parameters, fail."""

from __future__ import annotations

import gzip
import json
from typing import Any


class Mask:
    """Replaces ``SECRET`` by ``------``; the object is in memory, so that no word is split."""

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


class Show:
    """Its parameters, and the metadata of its input, as JSON."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        out_files[0].set_metadata({"shown": "yes"})
        shown = {"params": params, "metadata": in_files[0].get_metadata()}
        in_files[0].read()
        out_files[0].write(json.dumps(shown).encode())
        out_files[0].close()


class Fail:
    """Raises an exception that quotes its input: before any output, or (``late``) after a part."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        read = in_files[0].read().decode()
        self._logger.error(read)
        if "late" in params:
            out_files[0].set_metadata({"masked": "yes"})
            out_files[0].write(b"begun\n" * 100_000)
        raise ValueError(f"cannot understand {read}")


class Keep:
    """Keeps the lines that begin with ``public``."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __call__(self, in_files: list[Any], out_files: list[Any], params: dict[str, str]) -> None:
        lines = in_files[0].read().splitlines(keepends=True)
        out_files[0].write(b"".join(line for line in lines if line.startswith(b"public")))
        out_files[0].close()
