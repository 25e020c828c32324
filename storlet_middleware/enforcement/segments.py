"""Checks all parts of a static large object (SLO) against the rules before the answer starts.

Swift reads segments one after the other while the client reads the body; a refusal in the middle
could only break the answer.  Length, ETag and the manifest itself reveal facts of all segments, and
Swift reads no segment for a HEAD, for ``?multipart-manifest=get``, or for a condition that does not
hold.  So this module reads the manifest and its nested manifests with a pre-authorised request, and
checks each object that they name.

Most callers are covered by no mandatory rule in the account, and most containers hold no covered
object.  Then one check suffices for the account, or one for each container.

A manifest describes each part as it was when the manifest was stored: hash and length, of a link
those of the object at its end.  If the part was replaced or deleted since, the described object is
unknown, and any rule of the account may have covered it.  The listing of the container shows which
parts are links or have changed; only those need a HEAD each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from swift.common.utils import close_if_possible, config_true_value, drain_and_close

from storlet_middleware.concurrency import monotonic, sleep
from storlet_middleware.enforcement.link_ends import LinkEnd, link_end
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi import own_requests
from storlet_middleware.wsgi.bodies import read_bounded
from storlet_middleware.wsgi.swift_paths import (
    ALLOWS_RESERVED,
    PathRules,
    SwiftPath,
    covering_rule,
    origins,
)

#: Bounds against manifests that are too large to check.  Swift's default for one manifest is 1,000
#: segments and 8 MiB, and manifests nest.
_MAX_MANIFESTS: Final = 128
_MAX_OBJECTS: Final = 20_000
_MAX_MANIFEST_BYTES: Final = 16 << 20
#: Maximum number of parts that may be links or have changed; each costs a HEAD.
_MAX_LOOKED_UP: Final = 1000
#: Pages of a listing that are read to compare the parts with it, and names on each page.
_MAX_LISTING_PAGES: Final = 8
_LISTING_PAGE_ENTRIES: Final = 2000
#: Checks yield to other requests of the process at this interval.
_YIELD_SECONDS: Final = 0.01


#: Keys that only links have in a container listing.
_LINK_KEYS: Final = frozenset(("symlink_path", "version_symlink"))


class Content(NamedTuple):
    """The identity of an object's bytes.

    :param etag: without quotes; of a large object, its derived ETag.
    """

    etag: str
    size_bytes: int


class Found(NamedTuple):
    """The object at a path, or at the end of its chain of links.

    :param content: ``None`` if there is no object, or it is, or may be, in another account.
    :param end: of the chain of links; ``None`` if the path is no link.
    """

    content: Content | None
    end: LinkEnd | None


class _Part(NamedTuple):
    """One entry of a manifest."""

    path: SwiftPath
    content: Content
    is_manifest: bool


@dataclass(frozen=True)
class _Manifest:
    """A parsed manifest.

    :param timestamp: ``X-Timestamp`` of the manifest object.
    """

    timestamp: str | None
    entries: list[dict[str, Any]]


class Manifests:
    """Reads and checks the manifests of one client request.

    :param environ: the client's environment.
    :param query: the ``version-id`` part of the client's query; nested manifests are read with it
        as well.
    """

    def __init__(
        self, app: Any, environ: dict[str, Any], path_rules: PathRules, query: str = ""
    ) -> None:
        self._app = app
        self._environ = environ
        self._path_rules = path_rules
        self._query = query
        self._checked: set[SwiftPath] = set()
        self._parts_by_container: dict[str | None, dict[str, Content | None]] = {}
        self._may_hold_covered: dict[str | None, bool] = {}
        self._next_yield = monotonic() + _YIELD_SECONDS

    def covering_rule(self, manifest: SwiftPath, timestamp: str | None = None) -> str | None:
        """Return the mandatory rule that covers a part of the large object for the caller.

        If the parts cannot be determined, return a rule that may cover one.

        :param timestamp: ``X-Timestamp`` of the pending answer; the manifest must have the same.
        """
        possible_rule = covering_rule(self._path_rules, manifest.sibling(None, None))
        if possible_rule is None:
            return None
        outer = self._read_manifest(manifest)
        if outer is None or (timestamp is not None and outer.timestamp != timestamp):
            raise BackendFailed(
                "the large object changed while its rules were checked; retry the request",
                retry_after=1,
            )
        return self._covering_rule_of_parts(manifest, outer, possible_rule)

    def covering_rule_of_large(self, read: SwiftPath) -> str | None:
        """The same for an object that may be no large object."""
        possible_rule = covering_rule(self._path_rules, read.sibling(None, None))
        if possible_rule is None or not self._is_manifest(read):
            return None
        outer = self._read_manifest(read)
        return None if outer is None else self._covering_rule_of_parts(read, outer, possible_rule)

    def covering_rule_of_listed(self, container: SwiftPath, prefix: str) -> str | None:
        """The same for all large objects in ``container`` whose names begin with ``prefix``."""
        possible_rule = covering_rule(self._path_rules, container.sibling(None, None))
        if possible_rule is None:
            return None
        marker = ""
        for _ in range(_MAX_LISTING_PAGES):
            entries = self._listed(container, prefix, marker)
            if entries is None:
                raise BackendFailed("cannot list the segments of a large object for the rules")
            for entry in entries:
                if "slo_etag" in entry:
                    rule = self.covering_rule_of_large(
                        container.sibling(container.container, entry["name"])
                    )
                    if rule is not None:
                        return rule
            if not entries:
                return None
            marker = entries[-1]["name"]
        return possible_rule

    def _covering_rule_of_parts(
        self, manifest: SwiftPath, outer: _Manifest, possible_rule: str
    ) -> str | None:
        pending, manifests = [outer], {manifest}
        while pending:
            for part, content, is_manifest in _parts(manifest, pending.pop().entries):
                self._remember(part, content)
                rule = self._covering_rule_of_part(part)
                if rule is not None:
                    return rule
                if not is_manifest or part in manifests:
                    continue
                manifests.add(part)
                nested = self._read_manifest(part)
                if (
                    nested is None
                    or len(manifests) > _MAX_MANIFESTS
                    or len(self._checked) > _MAX_OBJECTS
                ):
                    return possible_rule  # the parts are unknown by now, or too many to check
                pending.append(nested)
        return self._covering_rule_of_unlisted(manifest, possible_rule)

    def _remember(self, part: SwiftPath, content: Content) -> None:
        """Keep a manifest's description of a part; ``None`` for a part with two descriptions."""
        of_container = self._parts_by_container.setdefault(part.container, {})
        name = part.name or ""
        of_container[name] = content if of_container.get(name, content) == content else None

    def _covering_rule_of_unlisted(self, manifest: SwiftPath, possible_rule: str) -> str | None:
        """The same for the parts that are links, or that the listing shows otherwise."""
        looked_up = []
        for container, parts in self._parts_by_container.items():
            listed = self._as_listed(manifest.sibling(container, None), parts)
            looked_up += [
                (manifest.sibling(container, name), content)
                for name, content in sorted(parts.items())
                if name not in listed
            ]
        if len(looked_up) > _MAX_LOOKED_UP:
            return possible_rule
        for path, content in looked_up:
            found = look_up(self._app, self._environ, path)
            if content is None or found.content != content:
                return possible_rule
            for read in origins(found.end.known_path) if found.end is not None else ():
                rule = covering_rule(self._path_rules, read)
                if rule is not None:
                    return rule
        return None

    def _as_listed(self, container: SwiftPath, parts: dict[str, Content | None]) -> set[str]:
        """The names in ``parts`` that are no links and have the content that is in the listing."""
        first, last, marker, same = min(parts), max(parts), "", set[str]()
        pairs = enumerate(zip(first, last, strict=False))
        differences = (index for index, pair in pairs if pair[0] != pair[1])
        prefix = first[: next(differences, len(first))]
        for _ in range(_MAX_LISTING_PAGES):
            entries = self._listed(container, prefix, marker)
            if entries is None:
                break
            same |= {
                entry["name"]
                for entry in entries
                if not _LINK_KEYS.intersection(entry)
                and parts.get(entry["name"]) == _listed_content(entry)
            }
            if not entries or entries[-1]["name"] >= last:
                break
            marker = entries[-1]["name"]
        return same

    def _listed(
        self, container: SwiftPath, prefix: str, marker: str
    ) -> list[dict[str, Any]] | None:
        """One page of a container listing; empty if there is no container.

        ``None`` if Swift refuses it.
        """
        path = (
            f"{container.path}format=json&limit={_LISTING_PAGE_ENTRIES}"
            f"&prefix={quote(prefix)}&marker={quote(marker)}"
        )
        answer = send_preauthorised(self._app, self._environ, "GET", path)
        if answer.status_int // 100 != 2:
            drain_and_close(answer)
            return [] if answer.status_int == 404 else None
        return _entries(answer)

    def _covering_rule_of_part(self, part: SwiftPath) -> str | None:
        for read in origins(part):
            if read in self._checked:
                continue
            self._checked.add(read)
            rule = (
                covering_rule(self._path_rules, read) if self._is_container_covered(read) else None
            )
            if rule is not None:
                return rule
            self._yield_when_due()
        return None

    def _is_container_covered(self, read: SwiftPath) -> bool:
        """Return whether a rule may cover an object of the container, without reading objects."""
        if read.container not in self._may_hold_covered:
            rule = covering_rule(self._path_rules, read.sibling(read.container, None))
            self._may_hold_covered[read.container] = rule is not None
        return self._may_hold_covered[read.container]

    def _yield_when_due(self) -> None:
        if monotonic() > self._next_yield:
            sleep(0)
            self._next_yield = monotonic() + _YIELD_SECONDS

    def _is_manifest(self, read: SwiftPath) -> bool:
        answer = send_preauthorised(self._app, self._environ, "HEAD", read.path)
        drain_and_close(answer)
        if answer.status_int // 100 == 5:
            raise BackendFailed(
                f"cannot look up a segment for the rules: Swift answered {answer.status_int}"
            )
        end = link_end(read, answer.headers)
        if end is not None and end.path is not None and end.is_elsewhere:
            # Its manifest is not the caller's, and its own read is checked.
            return False
        return bool(config_true_value(answer.headers.get("X-Static-Large-Object", "false")))

    def _read_manifest(self, manifest: SwiftPath) -> _Manifest | None:
        """Return the parsed manifest; ``None`` if the object is missing or no manifest."""
        query = f"&{self._query}" if self._query else ""
        path = f"{manifest.path}multipart-manifest=get{query}"
        answer = send_preauthorised(self._app, self._environ, "GET", path)
        if answer.status_int // 100 != 2:
            drain_and_close(answer)
            if answer.status_int == 404:
                return None
            raise BackendFailed(
                f"cannot read the manifest of a large object: Swift answered {answer.status_int}"
            )
        if not config_true_value(answer.headers.get("X-Static-Large-Object", "false")):
            close_if_possible(answer.app_iter)
            return None
        return _Manifest(answer.headers.get("X-Timestamp"), _entries(answer))


def send_preauthorised(app: Any, environ: dict[str, Any], method: str, path: str) -> Any:
    """Send a pre-authorised request to the rest of the pipeline and return Swift's response.

    It opens expired objects if the client's request does.
    """
    headers = {ALLOWS_RESERVED: "true"}
    if "HTTP_X_OPEN_EXPIRED" in environ:
        headers["X-Open-Expired"] = environ["HTTP_X_OPEN_EXPIRED"]
    return own_requests.send(app, environ, method, path, headers)


def is_link(app: Any, environ: dict[str, Any], read: SwiftPath) -> bool:
    """Whether the object at ``read`` is a link; True if Swift does not know."""
    answer = send_preauthorised(app, environ, "HEAD", f"{read.path}symlink=get")
    drain_and_close(answer)
    return "X-Symlink-Target" in answer.headers or answer.status_int // 100 not in (2, 4)


def look_up(app: Any, environ: dict[str, Any], read: SwiftPath) -> Found:
    """Look up the object at ``read``, or at the end of its chain of links.

    The content of another account's object is unknown: the author of the rules that compare it
    could confirm a guess of any object of the cluster.
    """
    answer = send_preauthorised(app, environ, "HEAD", read.path)
    drain_and_close(answer)
    if answer.status_int // 100 == 5:
        raise BackendFailed(
            f"cannot look up an object for the rules: Swift answered {answer.status_int}"
        )
    end = link_end(read, answer.headers)
    is_known = answer.status_int // 100 == 2 and (end is None or not end.is_elsewhere)
    etag = str(answer.headers.get("Etag") or "").strip('"')
    content = Content(etag, int(answer.content_length or 0)) if is_known else None
    return Found(content, end)


def _entries(answer: Any) -> list[dict[str, Any]]:
    too_large = BackendFailed(
        f"the manifest or listing of a large object exceeds {_MAX_MANIFEST_BYTES} bytes"
    )
    body = read_bounded(answer.app_iter, _MAX_MANIFEST_BYTES, too_large)
    try:
        entries: list[dict[str, Any]] = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BackendFailed(
            f"cannot parse the manifest or listing of a large object: {error!r}"[:300]
        ) from error
    return entries


def _parts(manifest: SwiftPath, entries: list[dict[str, Any]]) -> Iterator[_Part]:
    """Yield each object that a manifest names.

    The names belong to the account of the client's request.
    """
    for entry in entries:
        if "data" in entry:
            continue
        container, _, name = str(entry["name"]).lstrip("/").partition("/")
        yield _Part(
            manifest.sibling(container, name),
            _content(entry.get("hash"), entry.get("bytes")),
            config_true_value(entry.get("sub_slo") or False),
        )


def _listed_content(entry: dict[str, Any]) -> Content:
    return _content(entry.get("slo_etag") or entry.get("hash"), entry.get("bytes"))


def _content(etag: Any, size_bytes: Any) -> Content:
    return Content(str(etag).strip('"'), int(size_bytes or 0))
