"""Sums over objects, and whether a sum includes a covered object.

A sum is a number about many objects: the bytes of a container, of an account or of a storage
policy, in an answer or compared with a quota.  The sum of a container with one object is the length
of that object, and the difference of two sums is the length of the objects that were stored in
between.  So a caller that a mandatory rule covers sees no sum that includes a covered object, and
sets no quota with which Swift compares it.

A container does not only hold objects of its own: any container of the account may be the archive
of others (``X-Versions-Location``), and does not record whose versions it holds.  Their names have
a form of their own, so these names are listed.  The listing is made after the sum, so it has each
version that the sum includes, unless the version was deleted since.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from swift.common import constraints

from storlet_middleware.concurrency import Pace
from storlet_middleware.wsgi import own_requests, swift_paths
from storlet_middleware.wsgi.swift_paths import PathRules, SwiftPath

#: Names that are looked at; a container with more in the range of archived names counts as covered.
_MAX_PAGES: Final = 4


def covering_rule(
    app: Any, environ: dict[str, Any], path_rules: PathRules, place: SwiftPath
) -> str | None:
    """The mandatory rule that may cover an object in the sum of ``place``, or ``None``.

    :param place: a container, or the account.
    """
    rule_of_any = path_rules.may_cover(place.account, None, None)
    if rule_of_any is None or place.container is None:
        return rule_of_any
    rule = path_rules.may_cover(place.account, place.container, None)
    if rule is not None:
        return rule
    return _rule_of_archived(app, environ, path_rules, place, rule_of_any)


def _rule_of_archived(
    app: Any, environ: dict[str, Any], path_rules: PathRules, container: SwiftPath, rule_of_any: str
) -> str | None:
    """The same for the archived versions in ``container``."""
    for names in _pages(app, environ, container):
        if names is None:
            return rule_of_any
        pace = Pace()
        for archived in sorted({swift_paths.archived_name(name) or "" for name in names} - {""}):
            rule = path_rules.may_cover(container.account, None, archived)
            if rule is not None:
                return rule
            pace.pause()
    return None


def _pages(app: Any, environ: dict[str, Any], container: SwiftPath) -> Iterator[list[str] | None]:
    """The names in ``container`` between the first and the last of archived versions; ``None`` at
    the end if there are more.
    """
    page = min(own_requests.PAGE_ENTRIES, constraints.CONTAINER_LISTING_LIMIT)
    query = {"limit": str(page), "marker": "", "end_marker": swift_paths.end_of_archived_names()}
    for _ in range(_MAX_PAGES):
        entries = own_requests.listing(app, environ, container.path, query) or []
        yield [str(entry["name"]) for entry in entries]
        if len(entries) < page:
            return
        query["marker"] = str(entries[-1]["name"])
    yield None
