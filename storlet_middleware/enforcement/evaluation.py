"""One operation, the rules that apply to it, and their decisions.

The *subject* is the first path that the rules are evaluated for: the object that is read by GET,
HEAD and COPY, the one that is written by PUT, POST and DELETE, or the container or account itself.
A copy needs two decisions: of the source's account about the read (as COPY), and of the target's
account about the write (as PUT).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Final

from swift.common.swob import Request

from rules.engine import Needs
from rules.facts import Facts
from rules.model import Rule, Step
from storlet_middleware.config import Config
from storlet_middleware.enforcement import request_facts
from storlet_middleware.enforcement.path_rules import RequestPathRules
from storlet_middleware.enforcement.read_guard import ReadGuard
from storlet_middleware.enforcement.read_object import ReadObject
from storlet_middleware.enforcement.request_facts import Evaluator, Parts
from storlet_middleware.errors import RuleRefused
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.ruleset.store import Loaded, RuleStore
from storlet_middleware.wsgi import authorization
from storlet_middleware.wsgi.context import RequestContext, swift_authorize
from storlet_middleware.wsgi.operation import COPY, Operation
from storlet_middleware.wsgi.subrequest import SwiftRefusal
from storlet_middleware.wsgi.swift_paths import SwiftPath

READS: Final = ("GET", "HEAD", COPY)


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
        #: The subject as it is stored.
        self.read = ReadObject(proxy.app, context.environ, operation, self.shows)
        self._evaluator: Evaluator | None = None
        if loaded:
            place = (self.subject.version, self.subject.account, self.subject.container)
            self._evaluator = Evaluator(
                proxy.app, self.environ, loaded.compiled, place, self.read.state
            )

    @property
    def app(self) -> Any:
        """The rest of the pipeline."""
        return self.proxy.app

    @property
    def config(self) -> Config:
        return self.proxy.config

    @property
    def is_object(self) -> bool:
        """Whether the subject is an object."""
        return self.subject.name is not None

    @functools.cached_property
    def path_rules(self) -> RequestPathRules:
        """The rules of all accounts, for checks of single paths."""
        return RequestPathRules(self.app, self.store, self.operation, self.config.rules.container)

    def shows(self, place: SwiftPath, parts: Parts, version_id: str = "") -> bool:
        """Whether the caller may see the facts of an object, or of its version."""
        return self.path_rules.shows(place, parts, version_id)

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator of the subject's account; raises if the account has no rules."""
        if self._evaluator is None:
            raise AssertionError("the account has no rules")
        return self._evaluator

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
        sent = self.operation.environ
        facts = request_facts.of_request(sent, self.method, subject.container, subject.name)
        if self.method == "PUT" and self.is_object:
            return dataclasses.replace(facts, stored=request_facts.incoming_facts(sent))
        return facts

    def is_exempt(self, path: SwiftPath) -> bool:
        """Whether no rules apply to ``path``."""
        return path.container == self.config.rules.container

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
        place = self.subject if self.method == "PUT" else self.read.path
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
