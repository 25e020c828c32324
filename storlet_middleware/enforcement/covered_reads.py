"""The reads of one request that the rules refuse.

The filter decides about the object that the client names.  :class:`CoveredReads` evaluates the
rules for the other objects that Swift reads, or describes, for the request, and remembers each
refusal.  It is the part that the checks of reads (:mod:`~.read_guard`) and of answers
(:mod:`~.answer_check`) share.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from storlet_middleware.enforcement.segments import Manifests
from storlet_middleware.errors import RuleRefused, StorletError
from storlet_middleware.wsgi.operation import READS, Operation
from storlet_middleware.wsgi.swift_paths import PathRules, SwiftPath, covering_rule, hidden_version


class CoveredReads:
    """See the module.

    :param operation: the client's request.
    :param path_rules_of: returns the rules of all accounts, evaluated as of the client's request.
        Most requests do not need them.
    :param decided: the path that the filter has evaluated the rules for: the one that is read, or
        else written.
    :param app: the rest of the pipeline.
    """

    def __init__(
        self,
        operation: Operation,
        path_rules_of: Callable[[Operation], PathRules],
        decided: SwiftPath,
        app: Any,
    ) -> None:
        self.operation = operation
        self.decided = decided
        self.app = app
        #: The mandatory rule whose storlet reads; the storlet may also read other objects of the
        #: account that this rule covers.
        self.running_rule: str | None = None
        #: Whether that storlet may read the target of a link.
        self.follows_links = True
        self._path_rules_of = path_rules_of
        self._known: dict[SwiftPath, StorletError] = {}

    @functools.cached_property
    def path_rules(self) -> PathRules:
        return self._path_rules_of(self.operation)

    @property
    def environ(self) -> dict[str, Any]:
        """A copy of the client's environment, for sub-requests."""
        return dict(self.operation.environ)

    def manifests(self, query: str = "") -> Manifests:
        """The check of a large object's segments; ``query`` is that of its reads."""
        return Manifests(self.app, self.environ, self.path_rules, query)

    def allow_storlet_of(self, rule: str | None, *, follows_links: bool) -> None:
        """The storlet of the mandatory ``rule`` reads; ``None`` if no mandatory rule runs one.

        :param follows_links: not if the storlet's parameters name the object: the maker of the link
            would choose them.
        """
        self.running_rule = rule
        self.follows_links = follows_links

    def require(self, read: SwiftPath, method: str, *, may_run: bool = True) -> None:
        """Raise if a mandatory rule covers ``read``.

        :param may_run: whether the rule's own storlet may read it.
        """
        if read not in self._known:
            rule = covering_rule(self.path_rules, read)
            if rule is None or (may_run and self._is_running(rule, read, method)):
                return
            self._known[read] = refusal(rule)
        raise self._known[read]

    def _is_running(self, rule: str, read: SwiftPath, method: str) -> bool:
        """Whether it is the rule whose storlet reads, by ``GET`` and in the rule's own account.

        Never for the listing of a dynamic large object: every writer of the container chooses its
        segments, so the storlet would not see an object as its owner stored it.
        """
        return (
            rule == self.running_rule
            and read.name is not None
            and read.account == self.decided.account
            and method == "GET"
        )

    def is_decided(self, read: SwiftPath, method: str) -> bool:
        """Whether the filter has decided about exactly this read: not about another version, or
        about a replacement of the object.

        A copy reads its source once, by ``GET``.  A HEAD during a copy is for the target (of a link
        with an ETag, of a segment), and its result does not pass through the storlet.
        """
        operation = self.operation
        _, account, container, name = self.decided
        is_read = operation.method in READS or (operation.is_copy and method == "GET")
        if container is None or name is None or not is_read:
            return False
        if operation.version_id:
            try:
                container, name = hidden_version(container, name, operation.version_id)
            except ValueError:
                return False
        return (read.account, read.container, read.name) == (account, container, name)


def refusal(rule: str) -> RuleRefused:
    """The refusal of a further read, or of an answer.

    All have one text: which of the reads is refused first depends on lengths and hashes (a range
    selects segments, a condition compares an ETag), and a path would name a segment.
    """
    return RuleRefused(
        rule,
        "the request would read or describe an object that the rule covers: a segment, the target"
        " of a link, an old version, or an extra resource",
    )
