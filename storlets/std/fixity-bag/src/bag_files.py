"""The files of a bag that say what it should have: RFC 8493.

``bagit.txt`` has the version, each ``manifest-ALGORITHM.txt`` the digests of the payload, each
``tagmanifest-ALGORITHM.txt`` those of other files, and ``bag-info.txt`` may have the size of the
payload.
"""

from __future__ import annotations

import re
from typing import Any

import digest_manifest
from digest_manifest import DIGITS
from parameters import shown
from refusal import Refusal

#: Other names of the same algorithms in names of manifests.
ALIASES = {"blake2b512": "blake2b"}
MOST_TAG_BYTES = 1 << 20
#: From this version on, each manifest has the whole payload.
COMPLETE_MANIFESTS = (1, 0)
MANIFEST = re.compile(r"(tag)?manifest-([A-Za-z0-9-]+)\.txt")
PAYLOAD = "data/"
_DECLARED = re.compile(
    r"BagIt-Version: ([0-9]{1,4})\.([0-9]{1,4})\nTag-File-Character-Encoding: (\S+)"
)
#: Its groups have nothing for a value of another form.
_OXUM = re.compile(
    r"^Payload-Oxum[ \t]*:[ \t]*(?:([0-9]{1,18})\.([0-9]{1,18})[ \t]*$)?",
    re.MULTILINE | re.IGNORECASE,
)
#: Path, algorithm and digest.
Digests = dict[str, dict[str, str]]


class BagError(Refusal):
    """The object is no bag, or its bag cannot be checked."""


def version_of(source: Any) -> tuple[int, int]:
    """The version that ``bagit.txt`` declares.

    :raises BagError: it declares no bag, or tag files that are not UTF-8.
    """
    match = _DECLARED.fullmatch(text_of(source, "bagit.txt").strip())
    if match is None:
        raise BagError(
            "the input is no bagit.txt: want the lines BagIt-Version: M.N and"
            " Tag-File-Character-Encoding: UTF-8"
        )
    if match[3].upper() not in ("UTF-8", "UTF8"):
        raise BagError(f"bagit.txt: the encoding is {shown(match[3])}, and only UTF-8 is read")
    return int(match[1]), int(match[2])


def oxum_of(source: Any) -> tuple[int, int] | None:
    """Bytes and number of the objects of the payload, if ``bag-info.txt`` has them.

    :raises BagError: it has two values of them, or one of another form.
    """
    found = {match.groups() for match in _OXUM.finditer(text_of(source, "bag-info.txt"))}
    if (None, None) in found:
        raise BagError("bag-info.txt: Payload-Oxum: want BYTES.OBJECTS")
    if len(found) > 1:
        raise BagError("bag-info.txt: there are two values of Payload-Oxum")
    return next(((int(size), int(count)) for size, count in found), None)


def text_of(source: Any, name: str) -> str:
    """A small tag file, with ``\\n`` as the end of each line."""
    data = source.read(MOST_TAG_BYTES + 1)
    if len(data) > MOST_TAG_BYTES:
        raise BagError(f"{name} has more than {MOST_TAG_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BagError(f"{name} is not UTF-8: {error}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def algorithm_of(name: str) -> str:
    """The algorithm that the name of a manifest has.

    :raises BagError: it is unknown.
    """
    match = MANIFEST.fullmatch(name)
    given = match[2].lower().replace("-", "") if match else ""
    algorithm = ALIASES.get(given, given)
    if algorithm not in DIGITS:
        raise BagError(f"{name}: the algorithm is unknown: want some of {', '.join(DIGITS)}")
    return algorithm


def add_entries(digests: Digests, source: Any, name: str, known: Any) -> None:
    """Add the entries of the manifest ``name``.

    :param known: the paths that the bag has; they decide between the forms of a name.
    :raises BagError: a line is no entry of such a manifest, or a path has two digests.
    """
    algorithm = algorithm_of(name)
    is_payload = not name.startswith("tag")
    try:
        for entry in digest_manifest.entries(source):
            path = next((each for each in entry.names if each in known), entry.names[0])
            where = f"{name}: line {entry.line}: {shown(path)}"
            if len(entry.digest) != DIGITS[algorithm] or entry.algorithm not in ("", algorithm):
                raise BagError(f"{where}: want {DIGITS[algorithm]} digits of {algorithm}")
            if path.startswith(PAYLOAD) != is_payload:
                place = f"below {PAYLOAD}" if is_payload else f"not below {PAYLOAD}"
                raise BagError(f"{where}: the names of this manifest are {place}")
            if digests.setdefault(path, {}).setdefault(algorithm, entry.digest) != entry.digest:
                raise BagError(f"{where}: is there with two digests")
    except digest_manifest.ManifestError as error:
        raise BagError(f"{name}: {str(error).removeprefix('manifest: ')}") from error
