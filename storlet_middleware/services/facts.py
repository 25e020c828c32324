"""The facts about an object that a storlet gets: those that its caller may see."""

from __future__ import annotations

from storlet_daemon.protocol.messages import Facts
from storlet_middleware import names
from storlet_middleware.services.requests import StoreAnswer
from storlet_middleware.wsgi.user_metadata import storlet_metadata


def facts_of(answer: StoreAnswer) -> Facts:
    """The facts in an answer of the store; of a result its size is not known."""
    headers = answer.headers
    return Facts(
        storlet_metadata(headers),
        None if names.RAN_ON in headers else answer.content_length,
        etag_of(answer) or None,
        headers.get("Content-Type") or None,
        headers.get("Last-Modified") or None,
    )


def etag_of(answer: StoreAnswer) -> str:
    """The ETag without its quotes; empty if there is none."""
    return (answer.headers.get("Etag") or "").strip('"')
