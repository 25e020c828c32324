"""Lists of digests: those of BagIt, of ``sha256sum`` and its siblings, and of BSD's tools.

::

    9f86d081...  data/photo.tiff            BagIt, sha256sum (a * may be before the name)
    SHA256 (data/photo.tiff) = 9f86d081...  BSD, openssl

BagIt writes ``%0A``, ``%0D`` and ``%25`` for line ends and per cent signs in names, and GNU's tools
write a backslash before the digest of a name in which ``\\n``, ``\\r`` and ``\\\\`` stand for such
characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from refusal import Refusal

MOST_LINE_BYTES = 64 * 1024
_PLAIN = re.compile(r"(\\?)([0-9a-fA-F]+)[ \t]+\*?(.+)")
_BSD = re.compile(r"(\\?)([A-Za-z0-9-]+) ?\((.+)\) ?= ([0-9a-fA-F]+)")
_OF_BAGIT = re.compile("%(0[ad]|25)", re.IGNORECASE)
_OF_GNU = re.compile(r"\\([nr\\])")
_GNU = {"n": "\n", "r": "\r", "\\": "\\"}
#: Each algorithm of manifests with the number of hexadecimal digits of its digest.
DIGITS = {
    "md5": 32, "sha1": 40, "sha256": 64, "sha512": 128, "blake2b": 128, "blake3": 64,
}  # fmt: skip
#: The usual algorithm for a number of digits, where nothing names another one.
_USUAL = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}


class ManifestError(Refusal):
    """A list of digests is not valid, or does not have the object."""


class Entry(NamedTuple):
    """One line of a list.

    :ivar algorithm: the one that the line names, or nothing.
    :ivar names: all names that the line may mean, the most probable one first.
    """

    line: int
    algorithm: str
    digest: str
    names: tuple[str, ...]


def expected_of(
    source: Any, path: str, digits: dict[str, int], names: Sequence[str]
) -> tuple[str, str]:
    """The algorithm and the digest of the object with the name ``path`` in a list.

    :param source: a file with the list.
    :param digits: each known algorithm with the number of its hexadecimal digits.
    :param names: the wanted algorithms, one of which decides if several have as many digits.
    :raises ManifestError: a line is none of a list, or the name is not there with one digest.
    """
    wanted = path.removeprefix("./")
    found: tuple[str, str] | None = None
    for each in entries(source):
        if wanted not in each.names:
            continue
        entry = _algorithm(each, digits, names), each.digest
        if found not in (None, entry):
            raise ManifestError(f"manifest: line {each.line}: {path!r} is there with two digests")
        found = entry
    if found is None:
        raise ManifestError(f"manifest: {path!r} is not there: path names the object as it does")
    return found


def entries(source: Any) -> Iterator[Entry]:
    """The entries of a list.

    :param source: a file with the list.
    :raises ManifestError: a line is none of a list.
    """
    for number, line in enumerate(_lines(source), 1):
        entry = _entry(line, number)
        if entry is not None:
            yield entry


def _lines(source: Any) -> Iterator[bytes]:
    """The lines, which end with LF, CR LF or CR, as those of BagIt."""
    rest = b""
    while block := source.read(MOST_LINE_BYTES):
        lines = (rest + block).splitlines(keepends=True)
        # A CR at the end of a block may be that of CR LF.
        is_cut = not lines[-1].endswith(b"\n") and len(lines[-1]) <= MOST_LINE_BYTES
        rest = lines.pop() if is_cut else b""
        yield from lines
    if rest:
        yield rest


def _entry(line: bytes, number: int) -> Entry | None:
    if len(line) > MOST_LINE_BYTES:
        raise ManifestError(f"manifest: line {number} has more than {MOST_LINE_BYTES} bytes")
    try:
        text = line.decode().removeprefix("\ufeff" if number == 1 else "").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ManifestError(f"manifest: line {number} is not UTF-8") from error
    if not text.strip():
        return None
    if match := _PLAIN.fullmatch(text):
        mark, digest, name = match.groups()
        algorithm = ""
    elif match := _BSD.fullmatch(text):
        mark, algorithm, name, digest = match.groups()
    else:
        raise ManifestError(f"manifest: line {number}: want a digest and a name")
    if mark:
        names: tuple[str, ...] = (_OF_GNU.sub(lambda each: _GNU[each[1]], name),)
    else:
        # Tools of BagIt differ in whether they encode, so both are the object.
        names = _OF_BAGIT.sub(lambda each: chr(int(each[1], 16)), name), name
    plain = tuple(each.removeprefix("./") for each in names)
    algorithm = algorithm.lower().removeprefix("sha2-").removeprefix("sha").replace("-", "")
    named = f"sha{algorithm}" if algorithm.isdigit() else algorithm
    return Entry(number, named, digest.lower(), plain)


def _algorithm(entry: Entry, digits: dict[str, int], names: Sequence[str]) -> str:
    count = len(entry.digest)
    fitting = [name for name, wanted in digits.items() if wanted == count]
    wanted = [name for name in names if name in fitting]
    named = entry.algorithm
    name = named or (wanted[0] if len(wanted) == 1 else _USUAL.get(count, ""))
    if name not in fitting:
        raise ManifestError(
            f"manifest: line {entry.line}: {count} digits{' of ' + named if named else ''}: no"
            f" digest of {', '.join(digits)}"
        )
    return name
