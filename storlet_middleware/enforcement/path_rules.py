"""The rules of all accounts, evaluated for single reads of one client's request."""

from __future__ import annotations

import dataclasses
from typing import Any, Final
from urllib.parse import quote

from rules import template
from rules.engine import Compiled
from rules.facts import ObjectFacts
from rules.model import Deny, Passes, Rule
from storlet_middleware.enforcement import request_facts
from storlet_middleware.enforcement.request_facts import Evaluator, ObjectState, Parts
from storlet_middleware.enforcement.segments import Manifests
from storlet_middleware.ruleset.store import Loaded, RuleStore
from storlet_middleware.wsgi import authorization
from storlet_middleware.wsgi.operation import COPY, Operation
from storlet_middleware.wsgi.swift_paths import SwiftPath, covering_rule, origins, version_of

#: Facts that belong to an object.
OF_OBJECTS: Final = frozenset({"object", "content-type", "size", "metadata"})
#: Those of an object whose name is known.
OF_STORED: Final = OF_OBJECTS - {"object"}
_OF_CONTAINERS: Final = frozenset({"container", "container-metadata", "policy"})
#: Unknown facts of an archived version: listings lack its metadata, and it was moved from its
#: original container.
OF_ARCHIVED: Final = _OF_CONTAINERS | {"metadata"}


def evaluator_for(
    app: Any,
    environ: dict[str, Any],
    place: SwiftPath,
    compiled: Compiled,
    shows: request_facts.Shows,
    query: str = "",
) -> Evaluator:
    """The evaluator of ``compiled`` for the object, container or account at ``place``.

    :param shows: see :func:`~.request_facts.look_up_object`.
    :param query: of the object's HEAD: ``version-id=...`` for a version.
    """

    def look_up() -> ObjectState:
        if place.container is None or place.name is None:
            raise AssertionError("only objects are looked up")
        return request_facts.look_up_object(app, environ, place.path + query, shows)

    return Evaluator(
        app, environ, compiled, (place.version, place.account, place.container), look_up
    )


class RequestPathRules:
    """A :class:`~storlet_middleware.wsgi.swift_paths.PathRules` for one operation.

    :param rules_container: the container of rules, to which no rules apply.
    """

    def __init__(
        self, app: Any, store: RuleStore, operation: Operation, rules_container: str
    ) -> None:
        self._app = app
        self._store = store
        self._version = operation.path.version
        self._environ = dict(operation.environ)
        self._rules_container = rules_container
        # The method in the facts: a read is a part of a copy, of a HEAD, or of a request with data.
        self._method = (
            COPY if operation.is_copy else "HEAD" if operation.method == "HEAD" else "GET"
        )

    def covers(self, account: str, container: str, name: str) -> str | None:
        """The name of the mandatory rule that covers reading the object for the caller, or
        ``None``.
        """
        loaded = self._loaded(account, container)
        if loaded is None:
            return None
        facts = request_facts.of_request(self._environ, self._method, container, name)
        evaluator = evaluator_for(
            self._app,
            self._environ,
            SwiftPath(self._version, account, container, name),
            loaded.compiled,
            self.shows,
        )
        # Decided as for a request with a storlet: an ordinary rule ahead of a mandatory
        # one applies to its own object only.
        rule = evaluator.decide(facts, explicit=True)[0].rule
        return rule.name if rule is not None and rule.is_mandatory else None

    def shows(self, place: SwiftPath, parts: Parts, version_id: str = "") -> bool:
        """Whether the caller may see the facts of the object, or of its version: by Swift's
        authorization, and as no mandatory rule covers it.

        The length of a large object is a fact of its segments.  Those of a dynamic one may be
        anywhere in the account.
        """
        read = version_of(place, version_id)
        if authorization.authorize(self._environ, self._app, "GET", read.path).refusal is not None:
            return False
        if any(covering_rule(self, origin) for origin in origins(read)):
            return False
        if parts is Parts.NAMED:
            query = f"version-id={quote(version_id)}" if version_id else ""
            manifests = Manifests(self._app, dict(self._environ), self, query)
            return manifests.covering_rule(place) is None
        return parts is Parts.NONE or covering_rule(self, place.sibling(None, None)) is None

    def ends_coverage(self, place: SwiftPath) -> str | None:
        """The name of the mandatory rule that covers the object for the caller, and would not after
        the POST of the operation, or with other parameters; ``None`` if there is none.
        """
        loaded = self._loaded(place.account, place.container)
        if loaded is None:
            return None
        facts = request_facts.of_request(self._environ, "GET", place.container, place.name)
        evaluator = evaluator_for(self._app, self._environ, place, loaded.compiled, self.shows)
        rule = evaluator.decide(facts, explicit=True)[0].rule
        state = evaluator.known_state
        # A decision that needed no facts of the object does not depend on them.
        if rule is None or not rule.is_mandatory or state is None:
            return None
        changed = request_facts.changed_facts(self._environ, state)
        facts = dataclasses.replace(facts, stored=changed)
        after = evaluator.decide(facts, explicit=True)[0].rule
        is_kept = after is not None and after.name == rule.name
        return None if is_kept and _keeps_parameters(rule, state.facts, changed) else rule.name

    def may_cover(self, account: str, container: str | None, name: str | None) -> str | None:
        """The same for any object if ``name`` is ``None``, in any container if ``container`` is."""
        loaded = self._loaded(account, container)
        if loaded is None:
            return None
        unknown = OF_OBJECTS if name is None else OF_STORED
        facts = request_facts.of_request(self._environ, self._method, container or "", name or "")
        rule = loaded.compiled.may_cover(
            facts, unknown if container is not None else unknown | _OF_CONTAINERS
        )
        return rule.name if rule is not None else None

    def may_require_run(self, place: SwiftPath) -> str | None:
        """The name of the mandatory rule that may apply to a PUT of any object with this path."""
        loaded = self._loaded(place.account, place.container)
        if loaded is None:
            return None
        facts = request_facts.of_request(self._environ, "PUT", place.container, place.name)
        rule = loaded.compiled.may_cover(facts, OF_STORED)
        return rule.name if rule is not None else None

    def output_refusal(self, place: SwiftPath) -> tuple[str, str] | None:
        """The rule that a further output of a storlet may violate at ``place``, and why, or
        ``None``.

        A rule that denies a PUT there, or a mandatory one that requires a storlet for it.  The
        content type, the length and the metadata are not known before the storlet has run, so a
        rule counts if it holds for any of them.
        """
        loaded = self._store.of(self._environ, self._version, place.account)
        if loaded is None or place.container is None:
            return None
        facts = request_facts.of_request(self._environ, "PUT", place.container, place.name)
        holder = request_facts.container_facts(
            self._app, self._environ, self._version, place.account, place.container
        )
        facts = dataclasses.replace(facts, holder=holder)
        denying = loaded.compiled.may_deny(facts, OF_STORED)
        if denying is not None and isinstance(denying.action, Deny):
            return denying.name, denying.action.message
        mandatory = loaded.compiled.may_cover(facts, OF_STORED)
        if mandatory is not None:
            return mandatory.name, "it requires a storlet of its own for what is stored there"
        return None

    def denial(self, method: str, place: SwiftPath) -> tuple[str, str] | None:
        """The name and the message of the rule that denies the caller ``method`` on the object at
        ``place``, or ``None``.
        """
        loaded = self._store.of(self._environ, self._version, place.account)
        if loaded is None or place.container == self._rules_container:
            return None
        facts = request_facts.of_request(self._environ, method, place.container, place.name)
        evaluator = evaluator_for(self._app, self._environ, place, loaded.compiled, self.shows)
        rule = evaluator.decide(facts)[0].rule
        if rule is None or not isinstance(rule.action, Deny):
            return None
        return rule.name, rule.action.message

    def _loaded(self, account: str, container: str | None) -> Loaded | None:
        loaded = self._store.of(self._environ, self._version, account)
        is_rules = container == self._rules_container
        return loaded if loaded is not None and loaded.has_mandatory and not is_rules else None


def _keeps_parameters(rule: Rule, stored: ObjectFacts, changed: ObjectFacts) -> bool:
    """Whether a covered caller may give the object other metadata: the storlets of the rule get the
    same parameters.

    Never, if a parameter is made from metadata that the caller does not see: a success would
    confirm a guess.
    """
    passes = rule.passes or Passes()
    names = map(str.lower, template.names_of_rule(rule))
    keys = [
        name.removeprefix(template.METADATA) for name in names if name.startswith(template.METADATA)
    ]
    return all(
        passes.allows_metadata(key) and stored.metadata.get(key) == changed.metadata.get(key)
        for key in keys
    )
