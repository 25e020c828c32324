"""Decides one operation by the rules of the accounts that it touches.

::

    operation --> Enforcement.decide --> ruling
                                         PassOn       forward the request; check Swift's answer
                                         RunStorlets  run the rules' storlets, and the client's own
                                         Filtered     a listing without the facts of covered objects
                                         Answered     a complete answer: HEAD, explanation, upload
                                         (or a refusal is raised)

For every ruling, each further read that Swift makes for the same operation (segments, links,
versions) is checked by the :class:`~.read_guard.ReadGuard`, which :meth:`Enforcement.decide` puts
at the end of the request's authorization chain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rules.conditions import METHODS
from rules.facts import Facts
from rules.model import Allow, Rule
from storlet_middleware import metrics
from storlet_middleware.enforcement import audit, passing, requirements
from storlet_middleware.enforcement.covered_reads import CoveredReads
from storlet_middleware.enforcement.evaluation import READS, Evaluation
from storlet_middleware.enforcement.explanation import explain
from storlet_middleware.enforcement.path_rules import RequestPathRules
from storlet_middleware.enforcement.read_guard import ReadGuard
from storlet_middleware.enforcement.rule_hits import RuleHits
from storlet_middleware.enforcement.storlet_runs import RuleDecisions, StorletRuns, runs_storlets
from storlet_middleware.enforcement.write_decisions import WriteDecisions
from storlet_middleware.errors import BackendFailed, RuleRefused, RulesUnavailable, StorletError
from storlet_middleware.flows.sequence import StepsOf
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.proxy.shared import Proxy
from storlet_middleware.ruleset.store import Loaded, RuleStore
from storlet_middleware.wsgi import caller
from storlet_middleware.wsgi.answer import Answer
from storlet_middleware.wsgi.context import RequestContext, install, swift_authorize
from storlet_middleware.wsgi.operation import READS as READ_METHODS
from storlet_middleware.wsgi.operation import Operation
from storlet_middleware.wsgi.storlet_request import StorletRequest
from storlet_middleware.wsgi.swift_paths import SwiftPath

WSGIApp: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class PassOn:
    """Forward the request, as without rules.

    :param evaluation: ``None`` where no rules apply.
    """

    evaluation: Evaluation | None = None

    @property
    def source_timestamp(self) -> str | None:
        """For a run that the client requests: ``X-Timestamp`` of the object that the rules were
        evaluated for.
        """
        evaluation = self.evaluation
        if evaluation is None or evaluation.method not in ("GET", "COPY"):
            return None
        known_state = evaluation.read.known_state
        return None if known_state is None else known_state.timestamp

    def pin_source(self) -> None:
        """Restrict Swift's copy to the object that the rules were evaluated for."""
        evaluation = self.evaluation
        if evaluation is None or not evaluation.copy_target or evaluation.operation.runs_storlet:
            return
        known_state = evaluation.read.known_state
        if known_state is not None:
            passing.pin_source(evaluation, known_state)

    def swift_answer(self) -> Answer | None:
        """Swift's answer, compared with the object that the rules were evaluated for; ``None`` if
        no comparison is needed.
        """
        evaluation = self.evaluation
        known_state = None if evaluation is None else evaluation.read.known_state
        if evaluation is None or known_state is None:
            return None
        if evaluation.copy_target is not None:
            return passing.copy_evaluated(evaluation, known_state)
        if evaluation.method in ("GET", "HEAD") and evaluation.is_object:
            return passing.read_evaluated(evaluation, known_state)
        return None


_PASS_ON: Final = PassOn()


@dataclass(frozen=True)
class RunStorlets:
    """Run the storlets of the rules, and the client's own."""

    requests: list[StorletRequest]
    plan: Plan
    source_timestamp: str | None


@dataclass(frozen=True)
class Filtered:
    """Answer with a listing from which facts of covered objects are removed."""

    evaluation: Evaluation

    def apply(self, app: WSGIApp) -> Answer:
        return passing.filter_listing(self.evaluation, app)


@dataclass(frozen=True)
class Answered:
    """The answer, as a WSGI application."""

    answer: WSGIApp


Ruling: TypeAlias = PassOn | RunStorlets | Filtered | Answered


class Enforcement:
    """The rules of all accounts, as one proxy applies them.

    :param require_enabled: raises :class:`~storlet_middleware.errors.BadRequest` when an account is
        not enabled for storlets.
    :param steps_of: the steps of a client's own request.
    """

    def __init__(
        self,
        proxy: Proxy,
        logger: Any,
        require_enabled: Callable[[dict[str, Any]], None],
        steps_of: StepsOf,
    ) -> None:
        self._proxy = proxy
        self._logger = logger
        self._require_enabled = require_enabled
        self._steps_of = steps_of
        self._container = proxy.config.rules.container
        self._hits = RuleHits(logger, proxy.config.rules.hits_seconds)
        self.store = RuleStore(proxy.app, proxy.config, logger, proxy.client_timeout_seconds)

    def decide(self, environ: dict[str, Any], operation: Operation) -> Ruling:
        """Decide ``operation``, and install the request's context.

        :raises StorletError: a rule refuses, or the rules are unavailable.
        :raises SwiftRefusal: Swift refuses.
        """
        if operation.sent_method not in METHODS:
            return _PASS_ON  # preflights reveal no objects, and Swift has no other methods
        if (
            operation.method == "HEAD"
            and operation.path.name is None
            and caller.is_from_swift(environ)
        ):
            return _PASS_ON  # Swift needs a container's keys and settings for every caller
        if operation.sent_method not in READ_METHODS:
            writer = self.store.handler(environ, operation)
            if writer is not None:
                return Answered(writer(environ))
        try:
            return self._decide(environ, operation)
        except StorletError as error:
            self._count_refusal(error)
            raise

    def _decide(self, environ: dict[str, Any], operation: Operation) -> Ruling:
        subject = operation.subject
        loaded = self.store.of(environ, subject.version, subject.account)
        context, guard = self._install(environ, operation, subject)
        if operation.wants_explanation:
            return Answered(explain(self._evaluation(context, guard, loaded)))
        if loaded is None and not (
            operation.copy_header and self._target_has_rules(environ, operation)
        ):
            return _PASS_ON
        ruling = self._rule_on(self._evaluation(context, guard, loaded))
        metrics.rules_allowed(self._logger)
        return ruling

    def require_allowed_output(self, context: RequestContext, place: SwiftPath) -> None:
        """Refuse a result of storlets where a rule may deny what is stored, or may require a
        storlet for it.  The caller may write there otherwise.

        :raises RuleRefused: the refusal.
        """
        refused = self._path_rules_of(context.require_operation()).output_refusal(place)
        if refused is not None:
            rule, message = refused
            error = RuleRefused(rule, f"output /{place.container}/{place.name}: {message}")
            self._count_refusal(error)
            raise error

    def _count_refusal(self, error: StorletError) -> None:
        """Count an operation, or a later read of it, that ``error`` refuses."""
        if isinstance(error, RuleRefused):
            metrics.rules_denied(self._logger)
        elif isinstance(error, RulesUnavailable | BackendFailed):
            metrics.rules_failed(self._logger)

    def _install(
        self, environ: dict[str, Any], operation: Operation, subject: SwiftPath
    ) -> tuple[RequestContext, ReadGuard]:
        reads = CoveredReads(operation, self._path_rules_of, subject, self._proxy.app)
        guard = ReadGuard(reads, swift_authorize(environ), self._container)
        guard.on_refusal = self._count_refusal
        return install(environ, operation, guard, self._proxy.protection), guard

    def _path_rules_of(self, operation: Operation) -> RequestPathRules:
        return RequestPathRules(self._proxy.app, self.store, operation, self._container)

    def _evaluation(
        self, context: RequestContext, guard: ReadGuard, loaded: Loaded | None
    ) -> Evaluation:
        return Evaluation(self._proxy, self.store, context, guard, loaded)

    def _target_has_rules(self, environ: dict[str, Any], operation: Operation) -> bool:
        """Whether a copy writes to another account that has rules."""
        target = operation.target
        if target is None or target.account == operation.subject.account:
            return False
        return self.store.of(environ, operation.path.version, target.account) is not None

    # --- decisions --------------------------------------------------------------------------------

    def _rule_on(self, evaluation: Evaluation) -> Ruling:
        requirements.require_parsed_copy(evaluation)
        rule, facts = evaluation.decide()
        if rule is not None:
            self._hits.count(evaluation.subject.account, rule)
        audit.record(evaluation, self._hits, self._logger)
        requirements.require_allowed_outputs(evaluation)
        if _is_plain_read(evaluation, rule):
            requirements.require_no_archived_version(evaluation, None)
            return PassOn(evaluation)
        write_rule, write_facts = WriteDecisions(evaluation).of_copy(facts)
        if write_rule is not None and evaluation.copy_target is not None:
            self._hits.count(evaluation.copy_target.account, write_rule)
        requirements.require_not_denied(evaluation, rule, write_rule)
        requirements.require_restorable_version(evaluation)
        requirements.require_no_moves(evaluation)
        requirements.require_no_quota(evaluation)
        requirements.require_no_later_delete(evaluation)
        requirements.require_plain_deletion(evaluation)
        requirements.require_no_restore(evaluation)
        requirements.require_kept_coverage(evaluation)
        return self._apply(evaluation, rule, facts, write_rule, write_facts)

    def _apply(
        self,
        evaluation: Evaluation,
        rule: Rule | None,
        facts: Facts,
        write_rule: Rule | None,
        write_facts: Facts,
    ) -> Ruling:
        """The ruling if no rule denies the operation."""
        reading, writing = (
            rule if runs_storlets(rule) else None,
            write_rule if runs_storlets(write_rule) else None,
        )
        if reading is not None and reading.is_mandatory and evaluation.method in READS:
            requirements.require_whole_object(evaluation, reading)
        storing = reading if evaluation.method == "PUT" else writing
        if storing is not None:
            requirements.require_own_bytes(evaluation, storing)
        if evaluation.method == "POST":
            requirements.require_no_links(evaluation)
        if not evaluation.is_object:
            is_listing = evaluation.method in ("GET", "HEAD") and passing.must_filter_listing(
                evaluation
            )
            return Filtered(evaluation) if is_listing else PassOn(evaluation)
        if evaluation.method == "HEAD" and reading is not None and reading.is_mandatory:
            return Answered(passing.covered_head(evaluation, reading))
        if evaluation.method in ("POST", "DELETE"):
            return PassOn(evaluation)
        requirements.require_no_archived_version(evaluation, reading)
        if evaluation.method == "HEAD":
            return PassOn(evaluation)
        reversed_rule, steps, facts = evaluation.decide_reverse(facts)
        decisions = RuleDecisions(reading, facts, writing, write_facts, reversed_rule, steps)
        if decisions.is_empty:
            requirements.require_no_expiring_copy(evaluation)
            return PassOn(evaluation)
        runs = StorletRuns(evaluation, self._require_enabled, self._steps_of)
        requests, plan = runs.build(decisions)
        return RunStorlets(requests, plan, PassOn(evaluation).source_timestamp)


def _is_plain_read(evaluation: Evaluation, rule: Rule | None) -> bool:
    """Whether the operation reads an object without a storlet, as most do."""
    if evaluation.method not in ("GET", "HEAD") or not evaluation.is_object:
        return False
    if evaluation.loaded is not None and evaluation.loaded.compiled.has_reverse:
        return False
    return rule is None or isinstance(rule.action, Allow)
