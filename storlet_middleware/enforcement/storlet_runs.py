"""The storlets that rules require for one operation, as requests and a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rules import template
from rules.facts import Facts
from rules.model import Explicit, Passes, Rule, Step
from rules.model import Run as RunAction
from storlet_middleware import names
from storlet_middleware.enforcement import requirements
from storlet_middleware.enforcement.evaluation import Evaluation
from storlet_middleware.engine import limits
from storlet_middleware.errors import BadRequest
from storlet_middleware.flows.sequence import StepsOf
from storlet_middleware.proxy.plan import Plan
from storlet_middleware.wsgi.storlet_request import ObjectPath, StorletRequest, parse

#: Names in parameters that the maker of a link to an object would choose.
_NAMES_OF_OBJECT: Final = frozenset({"container", "object"})


def runs_storlets(rule: Rule | None) -> bool:
    """Whether the rule's action is to run storlets."""
    return rule is not None and isinstance(rule.action, RunAction)


def steps_of_rule(rule: Rule | None) -> tuple[Step, ...]:
    """The storlets of the rule's action."""
    return rule.action.steps if rule is not None and isinstance(rule.action, RunAction) else ()


@dataclass(frozen=True)
class RuleDecisions:
    """The rules whose storlets run.

    :param read_rule: the rule about the read, or about the write of a PUT; ``None`` if it runs no
        storlet.
    :param write_rule: the rule about the write of a copy.
    :param reversed_rule: name of the rule whose storlets are reversed first; empty for none.
    :param reverse_steps: the steps that reverse it.
    """

    read_rule: Rule | None
    read_facts: Facts
    write_rule: Rule | None
    write_facts: Facts
    reversed_rule: str
    reverse_steps: tuple[Step, ...]

    @property
    def is_empty(self) -> bool:
        return self.read_rule is None and self.write_rule is None and not self.reverse_steps

    @property
    def rules(self) -> list[Rule]:
        return [rule for rule in (self.read_rule, self.write_rule) if rule is not None]


class StorletRuns:
    """Builds the requests and the plan of one operation.

    :param require_enabled: raises :class:`~storlet_middleware.errors.BadRequest` when the account
        is not enabled for storlets.
    :param steps_of: the steps of the client's own request.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        require_enabled: Callable[[dict[str, Any]], None],
        steps_of: StepsOf,
    ) -> None:
        self._evaluation = evaluation
        self._require_enabled = require_enabled
        self._steps_of = steps_of

    def build(self, wanted: RuleDecisions) -> tuple[list[StorletRequest], Plan]:
        """In order: steps that reverse an earlier rule, steps of the source's rule, steps of the
        target's rule, the client's own storlet.
        """
        evaluation = self._evaluation
        read_steps = (*wanted.reverse_steps, *steps_of_rule(wanted.read_rule))
        requests = [self._request(step, wanted.read_facts, wanted.read_rule) for step in read_steps]
        requests += [
            self._request(step, wanted.write_facts, wanted.write_rule)
            for step in steps_of_rule(wanted.write_rule)
        ]
        explicit = self._explicit_requests(wanted)
        requests += explicit
        self._require_runnable(wanted)
        mandatory = next((rule for rule in wanted.rules if rule.is_mandatory), None)
        storing = wanted.write_rule or (wanted.read_rule if evaluation.method == "PUT" else None)
        plan = Plan(
            rule=_decisive_name(wanted),
            is_mandatory=mandatory is not None,
            passes=_common_passes(wanted.rules),
            explicit_count=len(explicit),
            reverse=storing.name if storing is not None and _is_reversible(storing) else "",
            is_reversing=bool(wanted.reversed_rule),
        )
        evaluation.guard.reads.allow_storlet_of(
            mandatory.name if mandatory is not None else None,
            follows_links=mandatory is None
            or _NAMES_OF_OBJECT.isdisjoint(template.names_of_rule(mandatory)),
        )
        return requests, plan

    def _require_runnable(self, wanted: RuleDecisions) -> None:
        """Refuse, with a rule's name, operations on which storlets cannot run."""
        evaluation = self._evaluation
        first = wanted.rules[0].name if wanted.rules else wanted.reversed_rule
        try:
            self._require_enabled(evaluation.environ)
        except BadRequest as error:
            raise evaluation.refusal(first, f"it runs storlets: {error}") from None
        target = evaluation.copy_target
        if target is not None and target.account != evaluation.subject.account:
            raise evaluation.refusal(first, "storlets cannot run on a copy between accounts")
        requirements.require_whole_copy(evaluation, first)
        written = target or (evaluation.subject if evaluation.method == "PUT" else None)
        if written is not None and written.container in evaluation.proxy.catalog.containers:
            text = f"a storlet cannot write into the container {written.container}"
            raise evaluation.refusal(_decisive_name(wanted), text)

    def _explicit_requests(self, wanted: RuleDecisions) -> list[StorletRequest]:
        """The client's own storlets, which run last."""
        evaluation = self._evaluation
        if not evaluation.operation.runs_storlet:
            return []
        # The client's storlet replaces those of ordinary rules, so these rules are mandatory.
        for rule in wanted.rules:
            if rule.explicit is not Explicit.AFTER:
                text = f"{names.RUN_STORLET} is not allowed on objects that the rule covers"
                raise evaluation.refusal(rule.name, text)
        request = parse(evaluation.operation, evaluation.config)
        given = {names.EXTRA_RESOURCES: request.extra, names.RANGE: request.ranges}
        faults = [
            f"{header}: not supported where a rule's storlet runs first: leave it out"
            for header, value in given.items()
            if value
        ]
        if faults:
            raise BadRequest("; ".join(faults))
        return self._steps_of(evaluation.environ, request)

    def _request(self, step: Step, facts: Facts, rule: Rule | None) -> StorletRequest:
        evaluation = self._evaluation
        subject, target = evaluation.subject, evaluation.copy_target
        wanted, faults = limits.requested(
            {names.LIMIT_PREFIX + name: value for name, value in step.limits}
        )
        if faults:
            raise BadRequest("; ".join(limits.of_rule(rule.name if rule else "", faults)))
        try:
            parameters = {name: template.render(value, facts) for name, value in step.parameters}
        except template.MissingValue as missing:
            raise evaluation.refusal(
                rule.name if rule else "", f"in a parameter of the rule, {missing}"
            ) from None
        here = ObjectPath(subject.container or "", subject.name or "")
        there = (
            ObjectPath(target.container or "", target.name or "") if target is not None else None
        )
        is_put = evaluation.method == "PUT"
        return StorletRequest(
            method=evaluation.method,
            version=subject.version,
            account=subject.account,
            storlet=step.storlet,
            source=None if is_put else here,
            target=here if is_put else there,
            parameters=parameters,
            run_on_proxy=step.on == "proxy",
            run_on_object=step.on == "object",
            limits=wanted,
            rendered=frozenset(name for name, value in step.parameters if template.names(value)),
        )


def _decisive_name(wanted: RuleDecisions) -> str:
    """The name of the rule in answers: a mandatory one before an ordinary one."""
    mandatory = next((rule for rule in wanted.rules if rule.is_mandatory), None)
    decisive = mandatory or wanted.read_rule or wanted.write_rule
    return decisive.name if decisive is not None else wanted.reversed_rule


def _common_passes(rules: list[Rule]) -> Passes | None:
    """The intersection of ``pass`` of all ``rules``; ``None`` if no rule limits it."""
    allowed = [
        rule.passes or Passes() for rule in rules if rule.is_mandatory or rule.passes is not None
    ]
    if not allowed:
        return None
    first, *others = allowed
    for other in others:
        # If one pattern matches the other, the narrower one is the intersection.
        first = Passes(
            metadata=tuple({n for n in first.metadata if other.allows_metadata(n)})
            + tuple({n for n in other.metadata if first.allows_metadata(n)}),
            headers=tuple({n for n in first.headers if other.allows_header(n)})
            + tuple({n for n in other.headers if first.allows_header(n)}),
        )
    return first


def _is_reversible(rule: Rule) -> bool:
    return isinstance(rule.action, RunAction) and rule.action.reverse is not None
