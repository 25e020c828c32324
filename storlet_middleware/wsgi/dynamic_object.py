"""The length of a dynamic large object that Swift reads without a Content-Length.

With a full page of segments or more (10,000), Swift sends no length, and a body that ends at a
missing or broken segment looks complete.  So the sum of the segments' sizes is compared at the end.
"""

from __future__ import annotations

from typing import Any

from swift.common.swob import wsgi_to_str, wsgi_unquote

from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.swift_paths import object_path

MANIFEST = "X-Object-Manifest"


def listed_bytes(app: Any, environ: dict[str, Any], place: tuple[str, str], manifest: str) -> int:
    """The sum of the listed sizes of all segments.

    :param place: API version, and the account of the request that reads the object.
    :param manifest: the value of ``X-Object-Manifest``.
    :raises BackendFailed: Swift cannot list the segments.
    """
    container, _, prefix = wsgi_to_str(wsgi_unquote(manifest)).partition("/")
    path = object_path(*place, container)
    listed = own_requests.all_listed(app, environ, path, prefix)
    return sum(int(each["bytes"]) for each in listed)
