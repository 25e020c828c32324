"""The objects of a distribution: as listed by the client, by an object, or by a container."""

from __future__ import annotations

import fnmatch
import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from storlet_middleware import errors, names
from storlet_middleware.concurrency import Pace
from storlet_middleware.errors import AccessDenied, BackendFailed, BadRequest, StorletError
from storlet_middleware.flows.caller_requests import CallerRequests
from storlet_middleware.flows.distribution import Distribution, Selection, path_of
from storlet_middleware.flows.sequence import joined, read_object
from storlet_middleware.wsgi.bodies import read_bounded
from storlet_middleware.wsgi.own_requests import PAGE_ENTRIES, entries_of
from storlet_middleware.wsgi.storlet_request import ObjectPath

#: Swift's longest name has 1,024 bytes, that of a container 256.
_LINE_BYTES: Final = 1282
_PAGE_BYTES: Final = 16 << 20
#: Entries that are listed for one that is selected, at most.
_LISTED_PER_OBJECT: Final = 10
#: Of a line that is no text.
_SHOWN_BYTES: Final = 40


def objects_of(distribution: Distribution, requests: CallerRequests, most: int) -> list[ObjectPath]:
    """The objects, each once and in their order, read in the caller's name.

    :raises StorletError: there are none, there are more than ``most``, or the caller may not list
        them.
    """
    given = distribution.objects
    if isinstance(given, ObjectPath):
        found = _of_manifest(given, requests, most)
    elif isinstance(given, Selection):
        found = _of_container(given, requests, most)
    else:
        found = list(given)
    if not found:
        raise StorletError("objects: there are none", code=errors.INPUT_NOT_FOUND)
    if len(found) > most:
        raise BadRequest(f"objects: more than {most}: select fewer of them")
    _require_different(found)
    return found


def _require_different(paths: list[ObjectPath]) -> None:
    """Refuse objects that are there twice; the answer names them all."""
    if len(set(paths)) == len(paths):
        return
    counts = Counter(paths)
    raise BadRequest(
        joined([f"objects: {_shown(path)} is there twice" for path in counts if counts[path] > 1])
    )


def _shown(path: ObjectPath) -> str:
    return f"/{path.container}/{path.name}"


def _of_manifest(place: ObjectPath, requests: CallerRequests, most: int) -> list[ObjectPath]:
    """The lines of an object with paths; all its faults are reported at once."""
    content = read_object(requests, place, most * _LINE_BYTES)
    lines: dict[ObjectPath, int] = {}
    faults: list[str] = []
    pace = Pace()
    for number, line in enumerate(io.BytesIO(content), 1):
        pace.pause()
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if not text:
            continue
        try:
            path = path_of(text.decode())
        except UnicodeDecodeError:
            faults.append(f"line {number}: {text[:_SHOWN_BYTES]!r}: not UTF-8")
        except ValueError as error:
            faults.append(f"line {number}: {error}")
        else:
            first = lines.setdefault(path, number)
            if first != number:
                faults.append(f"line {number}: {_shown(path)} is on line {first} already")
        if len(lines) + len(faults) > most:
            faults.append(f"more than {most} lines: select fewer of them")
            break
    if faults:
        raise BadRequest(f"{_shown(place)}: {joined(faults)}")
    return list(lines)


def _of_container(wanted: Selection, requests: CallerRequests, most: int) -> list[ObjectPath]:
    found: list[ObjectPath] = []
    # fnmatch.fnmatchcase keeps thousands of compiled patterns.
    matches = re.compile(fnmatch.translate(wanted.glob or "*")).match
    for count, name in enumerate(_listed(wanted, requests), 1):
        if count > most * _LISTED_PER_OBJECT:
            raise BadRequest(
                f"objects: more than {most * _LISTED_PER_OBJECT} entries to look at: use prefix"
            )
        if name.endswith(wanted.suffix) and matches(name):
            found.append(ObjectPath(wanted.container, name))
        if len(found) > most:
            break
    return found


def _listed(wanted: Selection, requests: CallerRequests) -> Iterator[str]:
    query = {"format": "json", "prefix": wanted.prefix, "limit": str(PAGE_ENTRIES)}
    while page := _page(wanted.container, requests, query):
        pace = Pace()
        for entry in page:
            yield str(entry["name"])
            pace.pause()
        query["marker"] = str(page[-1]["name"])


def _page(container: str, requests: CallerRequests, query: dict[str, str]) -> list[dict[str, Any]]:
    answer = requests.send("GET", container, query=query)
    body = read_bounded(answer.chunks, _PAGE_BYTES, BackendFailed("a long listing"))
    status = int(answer.status[:3])
    if status in {401, 403}:
        raise AccessDenied(f"the container {container} cannot be listed", status=status)
    if status == 404:
        raise StorletError(f"there is no container {container}", code=errors.INPUT_NOT_FOUND)
    if status // 100 != 2:
        raise BackendFailed(f"the container {container} cannot be listed: {answer.status}")
    return entries_of(status, body)


def has_metadata(wanted: Selection, requests: CallerRequests, path: ObjectPath) -> bool:
    """Whether the object has the metadata, as the caller sees it."""
    answer = requests.head(f"{path.container}/{path.name}")
    status = int(answer.status[:3])
    if status // 100 != 2:
        code = answer.header(names.ERROR.lower()) or errors.BACKEND_FAILED
        raise StorletError(f"HEAD: {unquote(answer.status)}", code=code, status=status)
    return all(
        answer.header(f"{names.OBJECT_META}{key}".lower()).encode("latin-1")
        == value.encode("utf-8")
        for key, value in wanted.metadata.items()
    )
