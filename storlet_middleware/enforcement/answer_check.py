"""Facts of covered objects in the headers of Swift's answers.

An answer about one object can describe others that Swift does not read for it.  ETag and length of
a large object come from its segments, and its manifest lists them.  A static link shows its
target's length and ETag, also in the text of the 409 that it gives when its target has been
replaced.  The answer to a POST to a link names its target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from swift.common.utils import config_true_value

from storlet_middleware.enforcement.covered_reads import CoveredReads, refusal
from storlet_middleware.enforcement.segments import is_link, look_up
from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.strings import text
from storlet_middleware.wsgi.swift_paths import SwiftPath, covering_rule, origins, parse_url

#: Headers of objects that consist of others.
LARGE: Final = frozenset(("x-object-manifest", "x-static-large-object"))
_LINK: Final = frozenset(("x-symlink-target-etag", "x-symlink-target-bytes"))
#: The answer to a POST to a link names its target.
_LOCATION: Final = "location"
#: The status of a static link whose target is not the one that it names.
_MISMATCH: Final = "409"
#: The last target of a chain of links, in all answers of Swift about one.
_END_OF_LINKS: Final = "content-location"
_DESCRIBES_OTHERS: Final = LARGE | _LINK | {_LOCATION}


def describes_others(status: str, headers: Iterable[tuple[str, str]]) -> bool:
    """Whether an answer may have facts of other objects."""
    if status.startswith(_MISMATCH):
        return True
    for key, _ in headers:  # noqa: SIM110 - this is what every plain request pays for rules
        if key.lower() in _DESCRIBES_OTHERS:
            return True
    return False


def require_uncovered(
    reads: CoveredReads,
    status: str,
    headers: Iterable[tuple[str, str]],
    read: SwiftPath | None = None,
) -> None:
    """Raise if the answer to the operation of ``reads`` has facts of covered objects.

    :param headers: as Swift gives them; those of 304, 307, 412 and 416 contain the same facts as
        those of a success.
    :param read: the object of the answer, if it is a further input of a storlet, read by GET: its
        length and ETag reach the storlet and the record of the run.
    """
    given = {key.lower(): value for key, value in headers}
    is_manifest = config_true_value(given.get("x-static-large-object", "false"))
    if status.startswith(_MISMATCH) and _END_OF_LINKS in given:
        _check_mismatch(reads, given[_END_OF_LINKS])
    if read is not None:
        if is_manifest:
            _check_manifest(reads, read, "", given)
        return
    if reads.operation.method == "POST" and _LOCATION in given:
        for origin in origins(reads.decided):
            reads.require(origin, "HEAD", may_run=False)
    if not _LINK.isdisjoint(given):
        _check_link(reads, given)
    if is_manifest and reads.operation.source is not None:
        _check_manifest(reads, reads.operation.subject, reads.operation.version_id, given)


def _check_link(reads: CoveredReads, headers: Mapping[str, str]) -> None:
    """Check a static link: it shows its target's ETag and length in the answer to a read of the
    link itself, or to a ``POST``.
    """
    target = _target(reads.operation.path, headers)
    if target is None or target.name is None:
        raise BackendFailed("the target of a link is unknown, and rules may cover it")
    method = reads.operation.method
    # For a POST to a link, no rule was evaluated for the facts that the link shows.
    own = reads.operation.path if method == "POST" else None
    found = look_up(reads.app, reads.environ, target)
    end = None if found.end is None else found.end.known_path
    for read in (own, target, end):
        if read is not None and not reads.is_decided(read, method):
            for origin in origins(read):
                reads.require(origin, "HEAD")
    etag = headers.get("x-symlink-target-etag")
    # Swift repeats a POST to a version's link at the version itself.
    is_made_by_client = "x-symlink-target" in headers or method == "POST"
    if is_made_by_client and etag and (found.content is None or found.content.etag != etag):
        rule = covering_rule(reads.path_rules, target.sibling(None, None))
        if rule is not None:
            raise refusal(rule)


def _check_mismatch(reads: CoveredReads, end: str) -> None:
    """Check a static link whose target was replaced: the answer shows the ETag of the former one.

    :param end: the URL of the last target.
    """
    target = parse_url(end)
    if target is None:
        raise BackendFailed("the target of a link is unknown, and rules may cover it")
    rule = covering_rule(reads.path_rules, target.sibling(None, None))
    if rule is not None and not _is_of_new_link(reads):
        raise refusal(rule)


def _is_of_new_link(reads: CoveredReads) -> bool:
    """Whether the client needs to store a static link to an object that is no link itself: then the
    only ETag that is not the present one is its own.
    """
    operation = reads.operation
    wanted = operation.header("X-Symlink-Target")
    if operation.method != "PUT" or not wanted:
        return False
    headers = {"x-symlink-target": text(wanted).lstrip("/")}
    account = operation.header("X-Symlink-Target-Account")
    if account:
        headers["x-symlink-target-account"] = text(account)
    target = _target(operation.path, headers)
    return target is not None and not is_link(reads.app, reads.environ, target)


def _target(link: SwiftPath, headers: Mapping[str, str]) -> SwiftPath | None:
    """The target of a link; versioning shows its own link as one to ``?version-id`` of the
    object.
    """
    path = headers.get("x-symlink-target")
    if path is None:
        return parse_url(headers.get("location") or "")
    account = headers.get("x-symlink-target-account") or quote(link.account)
    return parse_url(f"/{link.version}/{account}/{path}")


def _check_manifest(
    reads: CoveredReads, manifest: SwiftPath, version_id: str, headers: Mapping[str, str]
) -> None:
    if manifest.name is None:
        return
    query = f"version-id={quote(version_id)}" if version_id else ""
    rule = reads.manifests(query).covering_rule(manifest, headers.get("x-timestamp"))
    if rule is not None:
        raise refusal(rule)
