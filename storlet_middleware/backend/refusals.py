"""The reason of an object node that did not run a storlet: ``X-Backend-Storlet-Refusal``.

Between a proxy and an object node, status 409 has four meanings.  The header distinguishes them:

* ``full``: the node has no free slot.  Swift's proxy server tries the next replica.
* ``unable``: the request names this node in ``X-Backend-Storlet-Avoid``, because it could
  not run storlets lately.  Swift's proxy server tries the next replica here, too.
* ``resume``: the request has ``Range``, so Swift's proxy server resumes a broken body.  A storlet's
  output cannot be resumed, because two runs may give different bytes.
* no header: the 409 is Swift's own.  Its symlink middleware compares the target's hash, as a link
  stores it, with the ETag of the answer, and a framed answer has an ETag of its own.

The header also comes with plain data (status 200), with the reason: ``full``, or
``version`` (the node and the proxy have no version of the description or of the frames in common).

The status is 409 for three reasons.  Swift's proxy server tries the next replica after any status
but 2xx, 3xx and 416.  It counts a 5xx as an error of the node.  It sends the client the highest
4xx, so a 409 is not hidden by the 404 of a handoff.  Swift keeps the headers of the answer that it
chooses (``best_response`` in ``swift/proxy/controllers/base.py``), and its gatekeeper removes
``X-Backend-*`` from what clients get.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from storlet_middleware import names


class Refusal(StrEnum):
    """The values of the header."""

    FULL = "full"
    RESUME = "resume"
    UNABLE = "unable"
    VERSION = "version"


def refusal_of(headers: Mapping[str, str]) -> Refusal | None:
    """The reason in an answer's headers; ``None`` where the answer has none.

    A reason that is not known counts as none: the proxy then runs the storlet itself, which is
    always correct.

    :param headers: ignores the case of names (Swift's ``HeaderKeyDict``).
    """
    value = headers.get(names.BACKEND_REFUSAL)
    if value is None:
        return None
    try:
        return Refusal(value)
    except ValueError:
        return None
