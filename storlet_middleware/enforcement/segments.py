"""Asks the rules about all that a static large object consists of, before anything of it leaves.

Swift reads segments one after the other while the client reads the body; a refusal in the middle could only break the answer.
And length, etag and the manifest itself tell of all segments, while none of them is read for a HEAD, for
``?multipart-manifest=get``, or for a condition that does not hold.  So the manifest is read here with our own right, and the
manifests in it, and the rules are asked about each object that is named.

Most callers are covered nowhere in the account, and most containers hold nothing that is covered: then it is one question, or
one for each container.

A manifest tells of a link as if it were its target.  Which parts are links is known of their container's listing, so that not
each of them is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from swift.common.utils import close_if_possible, config_true_value, drain_and_close
from swift.common.wsgi import make_pre_authed_request

from storlet_middleware import names
from storlet_middleware.concurrency import monotonic, sleep
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.bodies import bounded
from storlet_middleware.wsgi.swift_paths import ALLOWS_RESERVED, Judge, Read, asked, of_url, origins

#: Against manifests that nobody can look through: Swift's have 1,000 segments by default, 8 MiB, and others within them.
_MOST_MANIFESTS: Final = 128
_MOST_OBJECTS: Final = 20_000
_MOST_BYTES: Final = 16 << 20
#: Of parts that may be links; each costs a HEAD.
_MOST_LINKS: Final = 1000
#: A listing is looked through for parts that are no links: so many pages of so many names.
_PAGES: Final = 8
_PAGE: Final = 2000
#: How long rules are asked before other requests have their turn.
_TURN_SECONDS: Final = 0.01


#: What a listing's entry has that is a link.
_LINK: Final = frozenset(("symlink_path", "version_symlink"))


@dataclass(frozen=True)
class _Manifest:
    """``stamp``: ``X-Timestamp`` of the object."""

    stamp: str | None
    entries: list[dict[str, Any]]


class Manifests:
    """Reads manifests for one request of a client.

    :param environ: the client's.
    :param query: what its query says of which version is meant; parts of a version are read with it as well.
    """

    def __init__(self, app: Any, environ: dict[str, Any], judge: Judge, query: str = "") -> None:
        self._app = app
        self._environ = environ
        self._judge = judge
        self._query = query
        self._asked: set[Read] = set()
        self._named: dict[str | None, set[str]] = {}
        self._may_hold: dict[str | None, bool] = {}
        self._end_of_turn = monotonic() + _TURN_SECONDS

    def rule_of(self, manifest: Read, stamp: str | None = None) -> str | None:
        """The mandatory rule that covers something of the large object for the caller, or may where that cannot be told.

        :param stamp: ``X-Timestamp`` of the answer that is about to leave, to which the manifest has to belong.
        """
        anywhere = asked(self._judge, manifest.of(None, None))
        if anywhere is None:
            return None
        found = self._read(manifest)
        if found is None or (stamp is not None and found.stamp != stamp):
            raise BackendFailed("the large object was changed while its rules were asked; ask again", retry_after=1)
        todo, manifests = [found], {manifest}
        while todo:
            for part, is_manifest in _parts(manifest, todo.pop().entries):
                rule = self._rule_of_part(part)
                if rule is not None:
                    return rule
                if not is_manifest or part in manifests:
                    continue
                manifests.add(part)
                inner = self._read(part)
                if inner is None or len(manifests) > _MOST_MANIFESTS or len(self._asked) > _MOST_OBJECTS:
                    return anywhere  # what it consisted of is told no more, or too much
                todo.append(inner)
        return self._rule_behind_links(manifest, anywhere)

    def _rule_behind_links(self, manifest: Read, anywhere: str) -> str | None:
        links = [
            manifest.of(container, name)
            for container, named in self._named.items()
            for name in sorted(named - self._plain(manifest.of(container, None), named))
        ]
        if len(links) > _MOST_LINKS:
            return anywhere
        for link in links:
            end = end_of_links(self._app, self._environ, link)
            for read in origins(end) if end is not None else ():
                rule = asked(self._judge, read)
                if rule is not None:
                    return rule
        return None

    def _plain(self, container: Read, named: set[str]) -> set[str]:
        """Those that the container's listing has, and not as links."""
        first, last, marker, plain = min(named), max(named), "", set[str]()
        differs = (at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1])
        prefix = first[: next(differs, len(first))]
        for _ in range(_PAGES):
            path = f"{container.path}format=json&limit={_PAGE}&prefix={quote(prefix)}&marker={quote(marker)}"
            answer = own_request(self._app, self._environ, "GET", path)
            if answer.status_int // 100 != 2:
                drain_and_close(answer)
                break
            entries = _entries(answer)
            plain |= named.intersection(each["name"] for each in entries if not _LINK.intersection(each))
            if not entries or entries[-1]["name"] >= last:
                break
            marker = entries[-1]["name"]
        return plain

    def _rule_of_part(self, part: Read) -> str | None:
        self._named.setdefault(part.container, set()).add(part.name or "")
        for read in origins(part):
            if read in self._asked:
                continue
            self._asked.add(read)
            rule = asked(self._judge, read) if self._may(read) else None
            if rule is not None:
                return rule
            self._take_turns()
        return None

    def _may(self, read: Read) -> bool:
        """Whether something may be covered in its container, which is known without looking at objects."""
        if read.container not in self._may_hold:
            self._may_hold[read.container] = asked(self._judge, read.of(read.container, None)) is not None
        return self._may_hold[read.container]

    def _take_turns(self) -> None:
        if monotonic() > self._end_of_turn:
            sleep(0)
            self._end_of_turn = monotonic() + _TURN_SECONDS

    def _read(self, manifest: Read) -> _Manifest | None:
        """``None`` for what is no manifest."""
        path = f"{manifest.path}multipart-manifest=get" + (f"&{self._query}" if self._query else "")
        answer = own_request(self._app, self._environ, "GET", path)
        if answer.status_int // 100 != 2:
            drain_and_close(answer)
            if answer.status_int == 404:
                return None
            raise BackendFailed(f"a large object's manifest cannot be read: Swift answered {answer.status_int}")
        if not config_true_value(answer.headers.get("X-Static-Large-Object", "false")):
            close_if_possible(answer.app_iter)
            return None
        return _Manifest(answer.headers.get("X-Timestamp"), _entries(answer))


def own_request(app: Any, environ: dict[str, Any], method: str, path: str) -> Any:
    """Swift's answer to us; an object that has expired is there for us when it is for the client."""
    headers = {ALLOWS_RESERVED: "true"}
    if "HTTP_X_OPEN_EXPIRED" in environ:
        headers["X-Open-Expired"] = environ["HTTP_X_OPEN_EXPIRED"]
    request = make_pre_authed_request(
        environ, method=method, path=path, headers=headers, swift_source=names.SWIFT_SOURCE
    )
    return request.get_response(app)


def end_of_links(app: Any, environ: dict[str, Any], read: Read) -> Read | None:
    """Where links end that begin at an object; ``None`` when it is none."""
    answer = own_request(app, environ, "HEAD", read.path)
    drain_and_close(answer)
    if answer.status_int // 100 == 5:
        raise BackendFailed(f"a link cannot be looked up for its rules: Swift answered {answer.status_int}")
    return of_url(str(answer.headers.get("Content-Location") or ""))


def _entries(answer: Any) -> list[dict[str, Any]]:
    too_many = BackendFailed(f"a large object's manifest is larger than {_MOST_BYTES} bytes")
    body = bounded(answer.app_iter, _MOST_BYTES, too_many)
    try:
        entries: list[dict[str, Any]] = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BackendFailed(f"a large object's manifest cannot be understood: {error!r}"[:300]) from error
    return entries


def _parts(manifest: Read, entries: list[dict[str, Any]]) -> Iterator[tuple[Read, bool]]:
    """What a manifest names, and whether that is a manifest itself; names are of the account that the client asked."""
    for entry in entries:
        if "data" in entry:
            continue
        container, _, name = str(entry["name"]).lstrip("/").partition("/")
        yield manifest.of(container, name), config_true_value(entry.get("sub_slo") or False)
