"""The object at the end of a chain of links, as Swift's answer names it.

Every tenant can make links to all paths, and rules that compare facts.  So facts of an object of
another account are no facts for the rules of the link's account, unless the caller may see them.
An end that cannot be parsed may be in any account.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from storlet_middleware.errors import BackendFailed
from storlet_middleware.wsgi.swift_paths import SwiftPath, parse_url

_END: Final = "Content-Location"


class LinkEnd(NamedTuple):
    """The end of the links at one path.

    :param path: the object; ``None`` if the answer names none.
    :param is_elsewhere: whether the object is, or may be, in another account than the link.
    """

    path: SwiftPath | None
    is_elsewhere: bool

    @property
    def known_path(self) -> SwiftPath:
        """The object.

        :raises BackendFailed: the answer names none, so no rule can be evaluated for it.
        """
        if self.path is None:
            raise BackendFailed("the target of a link is unknown, and rules may cover it")
        return self.path


def link_end(link: SwiftPath | None, headers: Mapping[str, Any]) -> LinkEnd | None:
    """The end of the links at ``link``; ``None`` if there is no link.

    :param link: the path of the request; ``None`` if it is unknown.
    :param headers: of Swift's answer, a ``HeaderKeyDict``.
    """
    location = headers.get(_END)
    if location is None:
        return None
    end = parse_url(str(location))
    if link is None or end is None or end.name is None:
        return LinkEnd(None, is_elsewhere=True)
    return LinkEnd(end, is_elsewhere=end.account != link.account)
