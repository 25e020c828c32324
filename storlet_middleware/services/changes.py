"""Requests of a storlet that change an object: metadata, copies, deletion.  Done at the call.

As with a client that disconnects, Swift may complete a request that is under way when the run ends.

No storlet changes objects of the storlet, dependency, log and rules containers: they have a meaning
to this filter.

**Metadata.**  Swift's POST replaces all metadata of an object, so a change of single items reads
the others first and sends them again.  Headers that a POST would remove are sent again too: an
expiry, an encoding, the manifest of a dynamic large object. Two cases would lose items, and are
refused: a rule that withholds some from the caller, and a link, whose metadata is another
object's.  Swift has no condition for a POST. Changes by one run are made one after the other; of
changes by different requests at the same time, one may be lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import quote, unquote

from swift.common.swob import Request

from storlet_daemon.protocol.messages import CopyObject, DeleteObject, Performed, SetMetadata
from storlet_middleware import errors, names
from storlet_middleware.concurrency import semaphore
from storlet_middleware.errors import BackendFailed
from storlet_middleware.services.requests import (
    StoreAnswer,
    StoreRefusal,
    StoreRequests,
    object_path,
    require_storable,
)
from storlet_middleware.wsgi import stored_headers
from storlet_middleware.wsgi.bodies import read_bounded

#: Headers of an object that a POST without them removes (``allowed_headers`` of object servers).
_KEPT: Final = (
    "Cache-Control",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Expires",
    "X-Delete-At",
    "X-Object-Manifest",
    "X-Robots-Tag",
)
#: The body of an answer to a change is a short text.
_ANSWER_BYTES: Final = 64 << 10


class Changes:
    """Performs the requests of one run that change objects.

    :param reserved: the containers that no storlet may write.
    """

    def __init__(self, requests: StoreRequests, reserved: frozenset[str]) -> None:
        self._requests = requests
        self._reserved = reserved
        self._changing = semaphore(1)

    def set_metadata(self, request: SetMetadata) -> Performed:
        path = writable_path(request.path, self._reserved)
        self._changing.acquire()
        try:
            # The newest replica: an older one lacks items.
            found = self._requests.send("HEAD", path, {"X-Newest": "true"})
            found.close()
            account = self._requests.account_path.account
            self._send("POST", path, _changed(account, path, found, request.changes))
        finally:
            self._changing.release()
        return Performed(request.id)

    def copy(self, request: CopyObject) -> Performed:
        source = object_path(request.source)
        target = writable_path(request.target, self._reserved)
        self._send("COPY", source, {"Destination": quote(target)})
        return Performed(request.id)

    def delete(self, request: DeleteObject) -> Performed:
        self._send("DELETE", writable_path(request.path, self._reserved), {})
        return Performed(request.id)

    def _send(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        answer = self._requests.send(method, path, headers)
        try:
            read_bounded(answer.app_iter, _ANSWER_BYTES, BackendFailed("a long answer"))
        finally:
            answer.close()


def writable_path(text: str, reserved: Collection[str]) -> str:
    """The path of an object that a storlet may write.

    :param reserved: the containers that no storlet may write.
    :raises StoreRefusal: there is none.
    """
    path = object_path(text)
    container = path.split("/", 2)[1]
    if container in reserved:
        reason = f"{path}: storlets do not change objects of container {container}"
        raise StoreRefusal(errors.ACCESS_DENIED, 403, reason)
    return path


def _changed(
    account: str, path: str, found: StoreAnswer, changes: Mapping[str, str]
) -> Mapping[str, str]:
    """The headers of a POST that makes ``changes`` and removes nothing else.

    :raises StoreRefusal: that is not possible.
    """
    rule = found.headers.get(names.RULE)
    if rule:
        text = f"{path}: rule {rule} withholds metadata, which a change would remove"
        raise StoreRefusal(errors.ACCESS_RULE, 403, text)
    target = found.headers.get("Content-Location")
    if target and not _is_version_of(f"/{account}{path}", target):
        text = f"{path}: the object is a link: change the metadata of its target, {target}"
        raise StoreRefusal(errors.BAD_REQUEST, 400, text)
    if any(key.lower() == "content-type" and not value.strip() for key, value in changes.items()):
        text = f"{path}: an object always has a Content-Type, which cannot be removed"
        raise StoreRefusal(errors.BAD_REQUEST, 400, text)
    post = Request.blank("/", environ={"REQUEST_METHOD": "POST"})
    for key, value in found.headers.items():
        if key.title() in _KEPT or key.lower().startswith(names.OBJECT_META.lower()):
            post.headers[key] = value
    stored_headers.set_metadata(post.headers, changes)
    require_storable(path, post, changes)
    return {key: value for key, value in post.headers.items() if key.lower() != "host"}


def _is_version_of(path: str, target: str) -> bool:
    """Whether ``Content-Location`` is the current version of the object itself: in a container with
    versions, Swift stores it elsewhere, and forwards a POST to it.
    """
    location, _, query = target.partition("?")
    _, _, place = unquote(location).removeprefix("/").partition("/")
    return query.startswith("version-id=") and f"/{place}" == path
