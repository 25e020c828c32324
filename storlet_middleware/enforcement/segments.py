"""Checks all parts of a static large object (SLO) against the rules before the answer starts.

Swift reads segments one after the other while the client reads the body; a refusal in the middle
could only break the answer.  Length, ETag and the manifest itself reveal facts of all segments, and
Swift reads no segment for a HEAD, for ``?multipart-manifest=get``, or for a condition that does not
hold.  So this module reads the manifest and its nested manifests with a pre-authorised request, and
checks each object that they name.

Most callers are covered by no mandatory rule in the account, and most containers hold no covered
object.  Then one check suffices for the account, or one for each container.

A manifest describes a link as if it were the link's target.  The listing of the container shows
which parts are links, so only those need a HEAD each.
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
from storlet_middleware.wsgi.bodies import read_bounded
from storlet_middleware.wsgi.swift_paths import (
    ALLOWS_RESERVED,
    Judge,
    SwiftPath,
    covering_rule,
    origins,
    parse_url,
)

#: Bounds against manifests that are too large to check.  Swift's default for one manifest is 1,000
#: segments and 8 MiB, and manifests nest.
_MAX_MANIFESTS: Final = 128
_MAX_OBJECTS: Final = 20_000
_MAX_MANIFEST_BYTES: Final = 16 << 20
#: Maximum number of parts that may be links; each costs a HEAD.
_MAX_LINKS: Final = 1000
#: Pages of a listing that are read to rule out links, and names on each page.
_MAX_LISTING_PAGES: Final = 8
_LISTING_PAGE_ENTRIES: Final = 2000
#: Checks yield to other requests of the process at this interval.
_YIELD_SECONDS: Final = 0.01


#: Keys that only links have in a container listing.
_LINK_KEYS: Final = frozenset(("symlink_path", "version_symlink"))


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

    def __init__(self, app: Any, environ: dict[str, Any], judge: Judge, query: str = "") -> None:
        self._app = app
        self._environ = environ
        self._judge = judge
        self._query = query
        self._checked: set[SwiftPath] = set()
        self._names_by_container: dict[str | None, set[str]] = {}
        self._may_hold_covered: dict[str | None, bool] = {}
        self._next_yield = monotonic() + _YIELD_SECONDS

    def covering_rule(self, manifest: SwiftPath, timestamp: str | None = None) -> str | None:
        """Return the mandatory rule that covers a part of the large object for the caller.

        If the parts cannot be determined, return a rule that may cover one.

        :param timestamp: ``X-Timestamp`` of the pending answer; the manifest must have the same.
        """
        possible_rule = covering_rule(self._judge, manifest.sibling(None, None))
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
        possible_rule = covering_rule(self._judge, read.sibling(None, None))
        if possible_rule is None or not self._is_manifest(read):
            return None
        outer = self._read_manifest(read)
        return None if outer is None else self._covering_rule_of_parts(read, outer, possible_rule)

    def covering_rule_of_listed(self, container: SwiftPath, prefix: str) -> str | None:
        """The same for all large objects in ``container`` whose names begin with ``prefix``."""
        possible_rule = covering_rule(self._judge, container.sibling(None, None))
        if possible_rule is None:
            return None
        marker = ""
        for _ in range(_MAX_LISTING_PAGES):
            entries = self._listed(container, prefix, marker)
            for entry in entries or ():
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
            for part, is_manifest in _parts(manifest, pending.pop().entries):
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
        return self._covering_rule_of_links(manifest, possible_rule)

    def _covering_rule_of_links(self, manifest: SwiftPath, possible_rule: str) -> str | None:
        links = [
            manifest.sibling(container, name)
            for container, part_names in self._names_by_container.items()
            for name in sorted(
                part_names - self._plain(manifest.sibling(container, None), part_names)
            )
        ]
        if len(links) > _MAX_LINKS:
            return possible_rule
        for link in links:
            end = end_of_links(self._app, self._environ, link)
            for read in origins(end) if end is not None else ():
                rule = covering_rule(self._judge, read)
                if rule is not None:
                    return rule
        return None

    def _plain(self, container: SwiftPath, part_names: set[str]) -> set[str]:
        """Return the ``part_names`` that are not links, by the container listing."""
        first, last, marker, plain = min(part_names), max(part_names), "", set[str]()
        pairs = enumerate(zip(first, last, strict=False))
        differences = (index for index, pair in pairs if pair[0] != pair[1])
        prefix = first[: next(differences, len(first))]
        for _ in range(_MAX_LISTING_PAGES):
            entries = self._listed(container, prefix, marker)
            if entries is None:
                break
            not_links = (entry["name"] for entry in entries if not _LINK_KEYS.intersection(entry))
            plain |= part_names.intersection(not_links)
            if not entries or entries[-1]["name"] >= last:
                break
            marker = entries[-1]["name"]
        return plain

    def _listed(
        self, container: SwiftPath, prefix: str, marker: str
    ) -> list[dict[str, Any]] | None:
        """One page of a container listing; ``None`` if Swift refuses it."""
        path = (
            f"{container.path}format=json&limit={_LISTING_PAGE_ENTRIES}"
            f"&prefix={quote(prefix)}&marker={quote(marker)}"
        )
        answer = send_preauthorised(self._app, self._environ, "GET", path)
        if answer.status_int // 100 != 2:
            drain_and_close(answer)
            return None
        return _entries(answer)

    def _covering_rule_of_part(self, part: SwiftPath) -> str | None:
        self._names_by_container.setdefault(part.container, set()).add(part.name or "")
        for read in origins(part):
            if read in self._checked:
                continue
            self._checked.add(read)
            rule = covering_rule(self._judge, read) if self._is_container_covered(read) else None
            if rule is not None:
                return rule
            self._yield_when_due()
        return None

    def _is_container_covered(self, read: SwiftPath) -> bool:
        """Return whether a rule may cover an object of the container, without reading objects."""
        if read.container not in self._may_hold_covered:
            rule = covering_rule(self._judge, read.sibling(read.container, None))
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
    request = make_pre_authed_request(
        environ, method=method, path=path, headers=headers, swift_source=names.SWIFT_SOURCE
    )
    return request.get_response(app)


def end_of_links(app: Any, environ: dict[str, Any], read: SwiftPath) -> SwiftPath | None:
    """Return the object at the end of the chain of links at ``read``; ``None`` if it is no link."""
    answer = send_preauthorised(app, environ, "HEAD", read.path)
    drain_and_close(answer)
    if answer.status_int // 100 == 5:
        raise BackendFailed(
            f"cannot look up the target of a link for the rules: Swift answered {answer.status_int}"
        )
    return parse_url(str(answer.headers.get("Content-Location") or ""))


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


def _parts(manifest: SwiftPath, entries: list[dict[str, Any]]) -> Iterator[tuple[SwiftPath, bool]]:
    """Yield each object that a manifest names, and whether that object is a manifest itself.

    The names belong to the account of the client's request.
    """
    for entry in entries:
        if "data" in entry:
            continue
        container, _, name = str(entry["name"]).lstrip("/").partition("/")
        yield manifest.sibling(container, name), config_true_value(entry.get("sub_slo") or False)
