"""The ETag of a framed answer: ``node/source-etag/unique``.

Swift's proxy server resumes a broken body only where the ETag is the same.  With the object's ETag
it would append the output of another run, or the plain object from a node without this filter, to
the middle of a frame.  So each framed answer has a unique ETag.

The ETag also names the node that sends the frames, by ``[sandbox] node_id``, and the ETag of the
object that they were made from.  They have no headers of their own, because a proxy calls 30
functions for each header of a backend answer.  A node of an earlier release sends a hash, which
names neither.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

_FIELDS: Final = 3


class FramedEtag(NamedTuple):
    """The named parts; empty where unknown."""

    node: str = ""
    source: str = ""


def make(node: str, source: str) -> str:
    """A new ETag.

    :param node: quoted, without a slash.
    """
    source = source.strip('"').replace("/", "")
    return f"{node}/{source}/{os.urandom(8).hex()}"


def read(etag: str) -> FramedEtag:
    """The parts of the ETag of a framed answer."""
    fields = etag.strip('"').split("/")
    return FramedEtag(fields[0], fields[1]) if len(fields) == _FIELDS else FramedEtag()
