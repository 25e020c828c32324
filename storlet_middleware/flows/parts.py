"""The pieces of a distribution: whole objects, or parts of them by ranges of bytes.

The split of a part gets the parameter ``scan-range``, so its storlet declares that. It decides what
belongs to a range of bytes; ``std:sql-part`` takes the rows that begin there. Size and ETag of an
object come from a HEAD, and the reads of all its parts require this ETag: an object that is
replaced meanwhile is an error, and never a result of two versions.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from storlet_middleware import errors, names
from storlet_middleware.errors import BadRequest, StorletError
from storlet_middleware.flows.caller_requests import CallerRequests
from storlet_middleware.flows.distribution import Part
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.wsgi.context import RequestContext
from storlet_middleware.wsgi.storlet_request import ObjectPath
from storlet_middleware.wsgi.subrequest import swift_code

#: The parameter that a flow sets.
RANGE: Final = "scan-range"


@dataclass(frozen=True)
class Piece:
    """The input of one split.

    :param scan_range: of a part, as HTTP writes it; empty: the whole object.
    :param etag: of the version that the split must read; empty: any.
    """

    path: ObjectPath
    scan_range: str = ""
    etag: str = ""

    @property
    def parameters(self) -> Mapping[str, str]:
        return {RANGE: self.scan_range} if self.scan_range else {}

    @property
    def headers(self) -> Mapping[str, str]:
        return {"If-Match": f'"{self.etag}"'} if self.etag else {}


def require_declared(proxy: Proxy, context: RequestContext, split: Part) -> None:
    """Raise :class:`~storlet_middleware.errors.BadRequest` unless the storlet knows ranges.

    Another one would read the whole object for each part.  The caller may run it.
    """
    if RANGE in split.parameters:
        raise BadRequest(f"split: {RANGE}: is set by {names.DISTRIBUTED} with parts: leave it out")
    path = context.require_operation().path
    version = proxy.catalog.resolve(context.environ, path.version, path.account, split.storlet)
    if RANGE not in version.parameters:
        raise BadRequest(
            f"parts: {split.storlet} does not declare the parameter {RANGE}, as std:sql-part does"
        )


def pieces_of(
    paths: Sequence[ObjectPath], count: int, requests: CallerRequests, most: int
) -> list[Piece]:
    """The pieces of all objects, in their order.

    :param count: of parts of each object; 0: the objects are whole.
    :raises StorletError: there are more than ``most``, or an object cannot be read.
    """
    if not count:
        return [Piece(path) for path in paths]
    if len(paths) * count > most:
        raise BadRequest(
            f"parts: {len(paths)} objects with {count} parts: want at most {most} parts"
        )
    return [piece for path in paths for piece in _parts_of(path, count, requests)]


def _parts_of(path: ObjectPath, count: int, requests: CallerRequests) -> list[Piece]:
    shown = f"/{path.container}/{path.name}"
    answer = requests.head(f"{path.container}/{path.name}")
    status = int(answer.status[:3])
    if status // 100 != 2:
        code = answer.header(names.ERROR.lower()) or swift_code(status)
        known = status if status in errors.REASONS else errors.row_of(code).status
        raise StorletError(f"{shown}: HEAD: {answer.status}", code=code, status=known)
    etag, length = answer.header("etag").strip('"'), answer.header("content-length")
    if not etag or not length.isdigit():
        raise BadRequest(f"parts: {shown}: its size and ETag are not known, as parts want")
    size = int(length)
    count = max(min(count, size), 1)
    edges = [size * number // count for number in range(count + 1)]
    return [
        Piece(path, f"bytes={first}-{max(end - 1, 0)}", etag)
        for first, end in itertools.pairwise(edges)
    ]
