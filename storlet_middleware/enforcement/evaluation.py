"""One operation, the rules that apply to it, and their decisions.

The *subject* is the first path that the rules are evaluated for: the object that is read by GET,
HEAD and COPY, the one that is written by PUT, POST and DELETE, or the container or account itself.
A copy needs two decisions: of the source's account about the read (as COPY), and of the target's
account about the write (as PUT).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from swift.common.swob import Request

from rules.engine import Compiled, Needs
from rules.facts import Facts
from rules.model import Rule, Step
from storlet_middleware.config import Config
from storlet_middleware.enforcement import request_facts
from storlet_middleware.enforcement.path_rules import OF_STORED, RequestPathRules, evaluator_for
from storlet_middleware.enforcement.read_guard import ReadGuard
from storlet_middleware.enforcement.request_facts import Evaluator, ObjectState, Parts
from storlet_middleware.errors import RuleRefused
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.ruleset.store import Loaded, RuleStore
from storlet_middleware.wsgi import authorization
from storlet_middleware.wsgi.context import RequestContext, swift_authorize
from storlet_middleware.wsgi.operation import COPY, Operation
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import SwiftPath, version_of

READS: Final = ("GET", "HEAD", COPY)


class _HiddenSource(Exception):
    """A rule depends on facts of a copy's source that the caller may not see."""


class Evaluation:
    """See the module.

    :param loaded: the rules of the subject's account; ``None`` where it has none.
    """

    def __init__(
        self,
        proxy: Proxy,
        store: RuleStore,
        context: RequestContext,
        guard: ReadGuard,
        loaded: Loaded | None,
    ) -> None:
        operation = context.require_operation()
        self.proxy = proxy
        self.store = store
        self.context = context
        self.guard = guard
        self.operation: Operation = operation
        self.environ: dict[str, Any] = context.environ
        self.loaded = loaded
        self.subject: SwiftPath = operation.subject
        #: The target of a copy; ``None`` for other operations.
        self.copy_target: SwiftPath | None = operation.target if operation.is_copy else None
        #: The method in the facts for the rules.
        self.method: str = COPY if self.copy_target is not None else operation.sent_method
        self._source_state: ObjectState | None = None
        self._evaluator = (
            evaluator_for(
                self.app,
                self.environ,
                self.subject,
                loaded.compiled,
                self.shows,
                self.version_query(),
            )
            if loaded
            else None
        )

    @property
    def app(self) -> Any:
        """The rest of the pipeline."""
        return self.proxy.app

    @property
    def config(self) -> Config:
        return self.proxy.config

    @property
    def read(self) -> SwiftPath:
        """The subject, or the version of it that the query names: Swift gives those to owners."""
        return version_of(self.subject, self._version_id)

    @property
    def _version_id(self) -> str:
        """The version whose facts decide.  Swift refuses each POST to a version: a rule's refusal
        would show the facts of the version.
        """
        return "" if self.method == "POST" else self.operation.version_id

    @property
    def is_object(self) -> bool:
        """Whether the subject is an object."""
        return self.subject.name is not None

    @functools.cached_property
    def path_rules(self) -> RequestPathRules:
        """The rules of all accounts, for checks of single paths."""
        return RequestPathRules(self.app, self.store, self.operation, self.config.rules.container)

    def shows(self, read: SwiftPath, parts: Parts) -> bool:
        """Whether the caller may see the facts of an object."""
        return self.path_rules.shows(read, parts)

    def shows_source(self, state: ObjectState) -> bool:
        """Whether the caller may see ``state``, that of the object that is read."""
        if state.end is None:
            return self.path_rules.shows(self.subject, state.parts, self._version_id)
        is_link_shown = self.path_rules.shows(self.subject, Parts.NONE, self._version_id)
        return is_link_shown and self.shows(state.end, state.parts)

    @functools.cached_property
    def is_source_hidden(self) -> bool:
        """Whether the caller may not see the facts of the object that a copy reads.

        Then no rule about the target may depend on them: the caller may be its author.
        """
        return self.copy_target is not None and not self.shows_source(self.source_state())

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator of the subject's account; raises if the account has no rules."""
        if self._evaluator is None:
            raise AssertionError("the account has no rules")
        return self._evaluator

    @property
    def known_state(self) -> ObjectState | None:
        """The state of the object that is read, if it was looked up."""
        return self._evaluator.known_state if self._evaluator is not None else self._source_state

    def version_query(self) -> str:
        """The query that selects the object whose facts decide."""
        if self.method == "POST":
            return ""
        version = self.operation.query.get("version-id")
        return f"version-id={quote(version)}" if version else ""

    # --- decisions --------------------------------------------------------------------------------

    def decide(self) -> tuple[Rule | None, Facts]:
        """The rule that applies to the subject, and the facts that the decision needed."""
        facts = self.request_facts()
        if self._evaluator is None or self.is_exempt(self.subject):
            return None, facts
        decision, facts = self._evaluator.decide(facts, explicit=self.operation.runs_storlet)
        return decision.rule, facts

    def request_facts(self) -> Facts:
        """Facts of the operation on its subject that need no lookup."""
        subject = self.subject
        facts = request_facts.of_request(self.environ, self.method, subject.container, subject.name)
        if self.method == "PUT" and self.is_object:
            return dataclasses.replace(facts, stored=request_facts.incoming_facts(self.environ))
        return facts

    def is_exempt(self, path: SwiftPath) -> bool:
        """Whether no rules apply to ``path``."""
        return path.container == self.config.rules.container

    def decide_copy_target(self, facts: Facts) -> tuple[Rule | None, Facts]:
        """The same for the target of a copy; ``facts`` unchanged for other operations."""
        target = self.copy_target
        if target is None:
            return None, facts
        loaded = self.store.of(self.environ, target.version, target.account)
        if loaded is None or self.is_exempt(target):
            return None, facts
        try:
            return self.decide_write(target, loaded.compiled, self._shown_source)
        except _HiddenSource:
            return self._decide_unseen_write(target, loaded.compiled)

    def _shown_source(self) -> ObjectState:
        """The object that is read, if the caller may see its facts."""
        if self.is_source_hidden:
            raise _HiddenSource
        return self.source_state()

    def _decide_unseen_write(
        self, target: SwiftPath, compiled: Compiled
    ) -> tuple[Rule | None, Facts]:
        """The rule about the target of a copy that depends on facts that the caller may not see.

        :raises RuleRefused: a rule that restricts may apply.
        """
        explicit = self.operation.runs_storlet
        asked = self._write_of_unseen("PUT", target)
        denying = None if explicit else compiled.may_deny(asked, OF_STORED)
        rule = denying or compiled.may_cover(asked, OF_STORED)
        if rule is None:
            return None, asked
        text = "it uses facts of the object to copy, which the caller may not see"
        raise self.refusal(rule.name, text)

    def _write_of_unseen(self, method: str, target: SwiftPath) -> Facts:
        facts = request_facts.of_request(self.environ, method, target.container, target.name)
        holder = request_facts.container_facts(
            self.app, self.environ, target.version, target.account, target.container or ""
        )
        return dataclasses.replace(facts, holder=holder)

    def decide_write(
        self, target: SwiftPath, compiled: Compiled, source_state: Callable[[], ObjectState]
    ) -> tuple[Rule | None, Facts]:
        """The rule of ``compiled`` that applies to the target of a copy, and its facts.

        :param source_state: looks up the object that is copied.
        """

        def look_up() -> ObjectState:
            stored = source_state()
            copied = request_facts.copied_facts(self.environ, stored.facts, target.name or "")
            return dataclasses.replace(stored, facts=copied)

        place = (target.version, target.account, target.container)
        evaluator = Evaluator(self.app, self.environ, compiled, place, look_up)
        asked = request_facts.of_request(self.environ, "PUT", target.container, target.name)
        decision, asked = evaluator.decide(asked, explicit=self.operation.runs_storlet)
        return decision.rule, asked

    def decide_restored(self) -> Rule | None:
        """The rule that would apply to a PUT of the version that the query names, with the facts of
        the version.
        """
        subject = self.subject
        if self._evaluator is None or self.is_exempt(subject):
            return None
        asked = request_facts.of_request(self.environ, "PUT", subject.container, subject.name)
        return self._evaluator.decide(asked)[0].rule

    def decide_deletion(self, written: SwiftPath, compiled: Compiled) -> Rule | None:
        """The rule of ``compiled`` that would apply to a DELETE of ``written``, with the facts that
        the object has after this operation.
        """
        if self.is_exempt(written):
            return None

        def look_up() -> ObjectState:
            if self.method == "PUT":
                return ObjectState(request_facts.incoming_facts(self.environ))
            stored = self._shown_source()
            if self.method == "POST":
                facts = request_facts.changed_facts(self.environ, stored)
            else:
                facts = request_facts.copied_facts(self.environ, stored.facts, written.name or "")
            return dataclasses.replace(stored, facts=facts)

        place = (written.version, written.account, written.container)
        evaluator = Evaluator(self.app, self.environ, compiled, place, look_up)
        asked = request_facts.of_request(self.environ, "DELETE", written.container, written.name)
        try:
            return evaluator.decide(asked)[0].rule
        except _HiddenSource:
            return compiled.may_deny(self._write_of_unseen("DELETE", written), OF_STORED)

    def decide_reverse(self, facts: Facts) -> tuple[str, tuple[Step, ...], Facts]:
        """The rule whose storlets ran when the object was stored and must be reversed for this
        caller, with the reversing steps.
        """
        if self._evaluator is None or self.loaded is None or self.method not in ("GET", COPY):
            return "", (), facts
        compiled = self.loaded.compiled
        name = self._evaluator.object_state().reverse if compiled.has_reverse else ""
        while name:
            reverse = compiled.reverse(name, facts)
            if isinstance(reverse, Needs):
                facts = self._evaluator.completed(facts, reverse)
                continue
            return (name, reverse.steps, facts) if reverse is not None else ("", (), facts)
        return "", (), facts

    def source_state(self) -> ObjectState:
        """The stored object that is read; looked up on the first call."""
        if self._evaluator is not None:
            return self._evaluator.object_state()
        if self._source_state is None:
            self._source_state = request_facts.look_up_object(
                self.app, self.environ, self.subject.path + self.version_query(), self.shows
            )
        return self._source_state

    # --- refusals ---------------------------------------------------------------------------------

    def refusal(self, rule: str, message: str) -> RuleRefused:
        """The refusal to raise in the name of ``rule``.

        :raises SwiftRefusal: Swift refuses the caller anyway; the rules are not revealed to callers
            without access.
        """
        self.require_access()
        return RuleRefused(rule, message)

    def require_access(self) -> None:
        """Raise Swift's own refusal of the operation, if it has one."""
        # A writer of the container may restore a version.
        place = self.subject if self.method == "PUT" else self.read
        self.require_allowed("GET" if self.method in READS else "PUT", place)

    def require_allowed(self, method: str, place: SwiftPath) -> None:
        """Raise Swift's own refusal of ``method`` on ``place``, if it has one."""
        if place.container is not None:
            refusal = authorization.authorize(self.environ, self.app, method, place.path).refusal
        else:
            # Requests for an account come from its owner, or from callers that Swift authorizes.
            authorize = swift_authorize(self.environ)
            refusal = authorize(Request(dict(self.environ))) if authorize is not None else None
        if refusal is not None:
            raise SwiftRefusal(refusal)
