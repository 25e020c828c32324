"""Decisions about objects that an operation writes, by the facts that these will have.

A copy has the metadata and the content type of its source, and a version that is restored those of
the version.  An object that is stored with an expiry will be deleted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from rules.engine import Compiled
from rules.facts import Facts
from rules.model import Rule
from storlet_middleware.enforcement import request_facts
from storlet_middleware.enforcement.evaluation import Evaluation
from storlet_middleware.enforcement.path_rules import OF_STORED
from storlet_middleware.enforcement.request_facts import Evaluator, ObjectState
from storlet_middleware.wsgi.swift_paths import SwiftPath


class _HiddenSource(Exception):
    """A rule depends on facts of a copy's source that the caller may not see."""


class WriteDecisions:
    """The decisions of one operation."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._app = evaluation.app
        self._environ = evaluation.environ
        self._sent = evaluation.operation.environ

    def of_copy(self, facts: Facts) -> tuple[Rule | None, Facts]:
        """The rule that applies to the target of a copy, and the facts that the decision needed;
        ``facts`` unchanged for other operations.
        """
        evaluation = self._evaluation
        target = evaluation.copy_target
        if target is None:
            return None, facts
        loaded = evaluation.store.of(self._environ, target.version, target.account)
        if loaded is None or evaluation.is_exempt(target):
            return None, facts
        try:
            return self.of_copied(target, loaded.compiled, self._shown_source)
        except _HiddenSource:
            return self._of_unseen(target, loaded.compiled)

    def of_copied(
        self, target: SwiftPath, compiled: Compiled, source_state: Callable[[], ObjectState]
    ) -> tuple[Rule | None, Facts]:
        """The rule of ``compiled`` that applies to the target of a copy, and its facts.

        :param source_state: looks up the object that is copied.
        """

        def look_up() -> ObjectState:
            stored = source_state()
            copied = request_facts.copied_facts(self._sent, stored.facts, target.name or "")
            return dataclasses.replace(stored, facts=copied)

        asked = request_facts.of_request(self._sent, "PUT", target.container, target.name)
        is_explicit = self._evaluation.operation.runs_storlet
        evaluator = self._evaluator(target, compiled, look_up)
        decision, asked = evaluator.decide(asked, explicit=is_explicit)
        return decision.rule, asked

    def of_restored(self) -> Rule | None:
        """The rule that would apply to a PUT of the version that the query names, with the facts of
        the version.
        """
        evaluation = self._evaluation
        subject = evaluation.subject
        if evaluation.loaded is None or evaluation.is_exempt(subject):
            return None
        asked = request_facts.of_request(self._sent, "PUT", subject.container, subject.name)
        return evaluation.evaluator.decide(asked)[0].rule

    def of_deletion(self, written: SwiftPath, compiled: Compiled) -> Rule | None:
        """The rule of ``compiled`` that would apply to a DELETE of ``written``, with the facts that
        the object has after this operation.
        """
        evaluation = self._evaluation
        if evaluation.is_exempt(written):
            return None

        def look_up() -> ObjectState:
            if evaluation.method == "PUT":
                return ObjectState(request_facts.incoming_facts(self._sent))
            stored = self._shown_source()
            if evaluation.method == "POST":
                facts = request_facts.changed_facts(self._sent, stored)
            else:
                facts = request_facts.copied_facts(self._sent, stored.facts, written.name or "")
            return dataclasses.replace(stored, facts=facts)

        asked = request_facts.of_request(self._sent, "DELETE", written.container, written.name)
        try:
            return self._evaluator(written, compiled, look_up).decide(asked)[0].rule
        except _HiddenSource:
            return compiled.may_deny(self._unseen_facts("DELETE", written), OF_STORED)

    def _evaluator(
        self, written: SwiftPath, compiled: Compiled, look_up: Callable[[], ObjectState]
    ) -> Evaluator:
        place = (written.version, written.account, written.container)
        return Evaluator(self._app, self._environ, compiled, place, look_up)

    def _shown_source(self) -> ObjectState:
        """The stored object that the operation copies or changes; a source only if the caller may
        see its facts.
        """
        evaluation = self._evaluation
        if evaluation.copy_target is not None and evaluation.read.is_hidden:
            raise _HiddenSource
        return evaluation.read.state()

    def _of_unseen(self, target: SwiftPath, compiled: Compiled) -> tuple[Rule | None, Facts]:
        """The rule about the target of a copy that depends on facts that the caller may not see.

        :raises RuleRefused: a rule that restricts may apply.
        """
        asked = self._unseen_facts("PUT", target)
        is_explicit = self._evaluation.operation.runs_storlet
        denying = None if is_explicit else compiled.may_deny(asked, OF_STORED)
        rule = denying or compiled.may_cover(asked, OF_STORED)
        if rule is None:
            return None, asked
        text = "it uses facts of the object to copy, which the caller may not see"
        raise self._evaluation.refusal(rule.name, text)

    def _unseen_facts(self, method: str, target: SwiftPath) -> Facts:
        """The facts of a write whose source is unknown."""
        facts = request_facts.of_request(self._sent, method, target.container, target.name)
        holder = request_facts.container_facts(
            self._app, self._environ, target.version, target.account, target.container or ""
        )
        return dataclasses.replace(facts, holder=holder)
