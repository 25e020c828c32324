"""``-v``: each request and its answer on standard error, without secrets."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import click

from storlet_client.cli.output import legible
from storlet_client.exchange import Answer, Call, Pause
from storlet_client.transport import Event

_HIDDEN = "***"
#: Headers whose values are secrets, or can be.
_SECRET = re.compile(
    r"x-auth-(?!user).*|x-subject-token|x-service-token|x-storage-token|authorization|cookie"
    r"|set-cookie|x-storlet-parameter-.*|x-container-meta-.*key.*|x-account-meta-.*key.*",
    re.IGNORECASE,
)
#: Parameters of a query that are not secrets; others are those of a storlet, or signatures.
_PLAIN = frozenset((
    "format", "limit", "marker", "prefix", "delimiter", "storlet-versions", "storlet-version",
    "storlet-library", "storlet-runs", "storlet-secrets", "storlet", "outcome", "since", "until",
    "id", "follow", "lines",
))  # fmt: skip


def watch(call: Call, event: Event) -> None:
    """Print one event."""
    if event is None:
        _say(f"> {call.method} {_url(call.target(''))}")
        _headers(">", call.headers.items())
    elif isinstance(event, Pause):
        _say(f"* {event.reason}: repeat in {event.seconds:g} s")
    elif isinstance(event, Answer):
        _say(f"< {event.status}")
        _headers("<", event.headers.items())


def _headers(mark: str, headers: object) -> None:
    for name, value in headers:  # type: ignore[attr-defined]
        _say(f"{mark} {name}: {_HIDDEN if _SECRET.fullmatch(name) else value}")


def _url(url: str) -> str:
    parts = urlsplit(url)
    query = [
        (name, value if name in _PLAIN else _HIDDEN)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query, safe="*"), ""))


def _say(text: str) -> None:
    click.echo(legible(text), err=True)
