"""Consistency checks of a parsed rule set: ``check(rules, storlets)`` returns findings.

========================== ======== ================================================================
code                       severity meaning
========================== ======== ================================================================
``rule.never-holds``       error    no request satisfies the condition
``rule.never-matches``     error    earlier rules decide every request that satisfies the condition
``mandatory.useless``      error    the same for a mandatory rule, and one of the earlier rules is
                                    an ``allow``
``mandatory.allowed-past`` warning  an earlier ``allow`` decides some requests of a mandatory rule
``mandatory.preceded``     warning  an earlier ordinary ``run`` or ``deny`` decides some of them if
                                    the client requests no storlet
``mandatory.read-past``    warning  GET of an object is covered, HEAD or COPY of it is not
``segments.uncovered``     note     a mandatory rule covers objects, and not the segments of large
                                    ones
``rule.only-when-asked``   warning  earlier rules decide every request without ``X-Run-Storlet``
``storlet.missing``        error    a storlet does not exist
``storlet.access``         both     only callers (error) or some callers (warning) without
                                    permission to run the storlet match
``pipeline.type``          warning  a storlet does not accept the output type of the previous one
``pipeline.input``         warning  objects match that the first storlet does not accept
``rules.undo-one-another`` warning  each of two rules is triggered by the output type of the other
``rules.cycle``            warning  the same for a cycle of more rules (:mod:`rules.check.cycles`)
                                    (all four: by the content types that the storlets declare)
``size.cost``              error    evaluating the rules can take too many comparisons
``size.storlets``          error    they name too many storlets (both: :mod:`rules.check.cost`)
``check.undecided``        warning  the work budget was exhausted before a check was decided
``test.by-role``           note     a mandatory rule for a role misses callers without roles
``test.*``                 warning  a single test does not mean what it seems to
                                    (both: :mod:`rules.check.traps`)
========================== ======== ================================================================

An error is certain and never intended: it rejects the upload.  A warning can be intended; the
uploader must accept it.  A note needs no acceptance.

The checks are exact for all conditions (:mod:`rules.check.solver`).  The engine evaluates every
example before it is reported; an example with ``header.x-run-storlet`` is a client's request for a
storlet of its own.  The work is bounded in steps for any rules; a check that exceeds the bound is
reported as undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from rules.check import cost, traps
from rules.check.budget import UndecidedError
from rules.check.cycles import CycleCheck, at
from rules.check.pipelines import READS, PipelineCheck, StorletFacts
from rules.check.questions import NOT_REQUESTED, Answer, Cover, Questions, parts_of, present
from rules.engine import gives_way
from rules.example import describe, show
from rules.facts import Facts, ObjectFacts
from rules.model import (
    Action,
    All,
    Allow,
    Condition,
    Deny,
    Finding,
    Not,
    Operator,
    Place,
    Rule,
    RuleSet,
    Run,
    Severity,
    Test,
)
from rules.rewriting import SEGMENT_ENDS

#: The maximum number of conjuncts that are searched for contradictions.
_MANY_PARTS: Final = 40
_GET: Final = Test("method", Operator.EXACT, "GET")
#: The maximum number of rules named in a finding.
_NAMED: Final = 5


def check(rules: RuleSet, storlets: Mapping[str, StorletFacts] | None) -> tuple[Finding, ...]:
    """All findings about ``rules``, in the order of the text.

    :param storlets: the registered storlets by name; ``None`` skips the checks of storlets.
    """
    limits = cost.find(rules)
    if limits:
        return limits
    checker = _Checker(rules, storlets)
    checker.run()
    findings = (*checker.findings, *_of_audited(rules, storlets, checker), *traps.find(rules))
    return tuple(sorted(findings, key=lambda each: (each.place.line, each.place.column)))


def _of_audited(
    rules: RuleSet, storlets: Mapping[str, StorletFacts] | None, enforced: _Checker
) -> Iterator[Finding]:
    """Problems that the rules would have if the audited ones were enforced, and do not have now.

    They are less severe, because an audited rule can be meant to replace an enforced one.
    """
    if not rules.with_audited:
        return
    checker = _Checker(rules.as_enforced, storlets)
    checker.run()
    for finding in checker.findings:
        if finding not in enforced.findings:
            is_error = finding.severity is Severity.ERROR
            severity = Severity.WARNING if is_error else Severity.NOTE
            text = f"if the audited rules were enforced: {finding.text}"
            yield replace(finding, severity=severity, text=text)


class _Checker:
    def __init__(self, rules: RuleSet, storlets: Mapping[str, StorletFacts] | None) -> None:
        self._storlets = storlets
        self._questions = Questions(rules)
        self._rules = self._questions.rules
        #: Rules that can match, each with a request that it decides.
        self._matching: dict[int, Answer] = {}
        #: Those of them that match only if the client requests a storlet.
        self._only_requested: set[int] = set()
        self._undecided: list[tuple[Place, str]] = []
        self.findings: list[Finding] = []

    def run(self) -> None:
        for index, rule in enumerate(self._rules):
            check = partial(self._check_matches, index)
            self._collect(check, rule.place, f"whether rule {rule.name} can match")
        for index in list(self._matching):
            self._check_matching_rule(index)
        if self._storlets is not None:
            running = [each for each in self._matching if isinstance(self._rules[each].action, Run)]
            cycles = CycleCheck(self._questions, self._storlets, running)
            place = self._rules[0].place if self._rules else Place()
            self._collect(cycles.findings, place, "whether rules trigger each other in a cycle")
        self._report_undecided()

    def _check_matching_rule(self, index: int) -> None:
        rule = self._rules[index]
        if rule.is_mandatory:
            question = f"whether requests can evade the mandatory rule {rule.name}"
            self._collect(partial(self._check_mandatory, index), rule.place, question)
        if isinstance(rule.action, Run):
            question = f"whether the storlets of rule {rule.name} fit"
            self._collect(partial(self._check_storlets, index), rule.place, question)

    def _collect(
        self, findings: Callable[[], Iterator[Finding]], place: Place, question: str
    ) -> None:
        try:
            for finding in findings():
                self.findings.append(finding)
        except UndecidedError:
            self._undecided.append((place, question))

    # --- rules that never match -------------------------------------------------------------------

    def _check_matches(self, index: int) -> Iterator[Finding]:
        rule = self._rules[index]
        example = self._questions.example(rule.condition)
        if example is None:
            yield self._never_holds(rule.name, rule.place, rule.condition)
            return
        if example.index == index and not example.facts.requests_storlet:
            self._matching[index] = example
            return
        plain = self._questions.cover(index, NOT_REQUESTED)
        is_decided = not isinstance(plain, Cover) or gives_way(rule)
        found = plain if is_decided else self._questions.cover(index)
        if isinstance(found, Cover):
            yield self._covered(rule, [self._rules[each] for each in found.indices], example)
            return
        self._matching[index] = found
        if isinstance(plain, Cover) and plain.indices:
            self._only_requested.add(index)
            yield from self._matches_only_requested(
                rule, [self._rules[each] for each in plain.indices]
            )

    def _matches_only_requested(self, rule: Rule, covering: Sequence[Rule]) -> Iterator[Finding]:
        example = self._questions.example(rule.condition, NOT_REQUESTED)
        if example is None:
            return
        names = _names(covering)
        yield Finding(
            Severity.WARNING,
            "rule.only-when-asked",
            rule.place,
            f"rule {rule.name} can match only if the client requests a storlet (X-Run-Storlet):"
            f" {names} before it decide{_s(names)} every other request that it would match, such as"
            " the example request",
            f"move {rule.name} before {covering[0].name}, or accept this warning if it is intended",
            describe(example.facts),
        )

    def _covered(self, rule: Rule, covering: Sequence[Rule], example: Answer) -> Finding:
        decider = "no rule" if example.index is None else f"rule {self._rules[example.index].name}"
        names = _names(covering)
        text = (
            f"rule {rule.name} can never match: {names} before it decide{_s(names)} every request"
            f" that it would match; {decider} decides the example request"
        )
        is_useless = rule.is_mandatory and any(isinstance(each.action, Allow) for each in covering)
        if is_useless:
            text = f"the mandatory {text}, and requests that an `allow` decides evade it"
        return Finding(
            Severity.ERROR,
            "mandatory.useless" if is_useless else "rule.never-matches",
            rule.place,
            text,
            f"move {rule.name} before {covering[0].name}, restrict {covering[0].name},"
            f" or remove {rule.name}",
            describe(example.facts),
        )

    def _never_holds(self, name: str, place: Place, condition: Condition) -> Finding:
        parts = self._contradiction(condition)
        example = self._questions.example(*parts[:-1])
        text = f"the condition of rule {name} can never hold"
        if len(parts) > 1:
            shown = "; ".join(show(part) for part in parts)
            text += f": {shown} contradict each other; the example satisfies all but the last"
        located = [part.place for part in parts if isinstance(part, Test) and part.place.line]
        return Finding(
            Severity.ERROR,
            "rule.never-holds",
            located[-1] if located else place,
            text,
            "change one of them; put alternative values into one list, or below `any`",
            describe(example.facts) if example else "",
        )

    def _contradiction(self, condition: Condition) -> list[Condition]:
        """A minimal set of conjuncts that contradict each other."""
        parts = list(parts_of(condition))
        if len(parts) > _MANY_PARTS:
            return [condition]
        for part in list(parts):
            fewer = [each for each in parts if each is not part]
            if self._questions.example(*fewer) is None:
                parts = fewer
        return parts

    # --- mandatory rules --------------------------------------------------------------------------

    def _check_mandatory(self, index: int) -> Iterator[Finding]:
        rule = self._rules[index]
        for answer, names in self._earlier_deciders(index, (Allow,)):
            yield Finding(
                Severity.WARNING,
                "mandatory.allowed-past",
                rule.place,
                f"the mandatory rule {rule.name} does not apply to requests that {names} before it"
                f" allow{_s(names)}, such as the example request",
                f"move {rule.name} up, or accept this warning if it is intended",
                describe(answer.facts),
            )
        if index not in self._only_requested:
            yield from self._preceded(index)
        yield from self._read_past(index)
        yield from self._segments_past(index)

    def _preceded(self, index: int) -> Iterator[Finding]:
        """Ordinary rules do not let requests evade the rule, but they preempt its action."""
        rule = self._rules[index]
        for answer, names in self._earlier_deciders(index, (Run, Deny)):
            yield Finding(
                Severity.WARNING,
                "mandatory.preceded",
                rule.place,
                f"{names} before the mandatory rule {rule.name} decide{_s(names)} some of its"
                " requests, such as the example request: unless the client requests a storlet,"
                f" {rule.name} has no effect on them",
                f"move {rule.name} up, or make the earlier rule mandatory as well",
                describe(answer.facts),
            )

    def _read_past(self, index: int) -> Iterator[Finding]:
        """Only conditions that exclude HEAD or COPY by name: the parser adds them to GET."""
        rule = self._rules[index]
        for method, reveals in _REVEALS.items():
            get, other = (at(rule.condition, {"method": each}) for each in ("GET", method))
            if get == other:
                continue
            refinement = _ReadPast(self._questions, index, method)
            facts = self._questions.joint([present("object"), get, Not(other)], refinement.refine)
            if facts is not None:
                yield Finding(
                    Severity.WARNING,
                    "mandatory.read-past",
                    rule.place,
                    f"the mandatory rule {rule.name} applies to GET but not to {method} of the same"
                    f" object, such as the example request: {reveals}",
                    f"apply {rule.name} to {method} as well, or accept this warning if it is"
                    " intended",
                    describe(replace(facts, method=method)),
                )

    def _segments_past(self, index: int) -> Iterator[Finding]:
        """An object that the rule covers, and whose segments no mandatory rule covers.

        It tries one object, so it does not find all of them.
        """
        rule = self._rules[index]
        if self._questions.example(rule.condition, present("object"), _GET) is None:
            return
        answer = self._questions.match(index, present("object"), _GET)
        if answer is None:
            return
        segment = replace(
            answer.facts,
            container=f"{answer.facts.container}{SEGMENT_ENDS[0]}",
            object=f"{answer.facts.object}/1",
            stored=ObjectFacts(exists=True, content_type="application/octet-stream"),
        )
        decider = self._questions.decider(segment)
        if decider is None or not self._rules[decider].is_mandatory:
            yield Finding(
                Severity.NOTE,
                "segments.uncovered",
                rule.place,
                f"the mandatory rule {rule.name} covers an object, but not its segments if it is"
                " large: they are objects with a name, content type and metadata of their own, such"
                " as the object of the example request",
                f"add a mandatory deny for containers that end in {' or '.join(SEGMENT_ENDS)},"
                " or give these callers no access to them",
                describe(segment),
            )

    def _earlier_deciders(
        self, index: int, kinds: tuple[type[Action], ...]
    ) -> Iterator[tuple[Answer, str]]:
        """Ordinary earlier rules of these kinds that decide requests which rule ``index`` matches.

        At most one item: a request that the first of them decides, and all their names.
        """
        found: dict[int, Answer] = {}
        for each in self._matching:
            earlier = self._rules[each]
            if each >= index or len(found) > _NAMED:
                break
            if not isinstance(earlier.action, kinds) or earlier.is_mandatory:
                continue
            if self._questions.may_meet(each, index):
                answer = self._questions.match(each, self._rules[index].condition)
                found |= {each: answer} if answer is not None else {}
        if found:
            yield next(iter(found.values())), _names([self._rules[each] for each in found])

    # --- storlets ---------------------------------------------------------------------------------

    def _check_storlets(self, index: int) -> Iterator[Finding]:
        rule = self._rules[index]
        reverse = rule.action.reverse if isinstance(rule.action, Run) else None
        if reverse is not None and self._questions.example(reverse.condition, READS) is None:
            condition = All((READS, reverse.condition))
            yield self._never_holds(f"{rule.name} (on read)", rule.place, condition)
        elif self._storlets is not None:
            example = self._matching[index]
            pipeline = PipelineCheck(self._questions, self._storlets, index, example)
            yield from pipeline.findings()

    # --- undecided checks -------------------------------------------------------------------------

    def _report_undecided(self) -> None:
        """A single finding for all undecided checks: they have the same cause."""
        if not self._undecided:
            return
        questions = [question for _place, question in self._undecided]
        more = f" and {len(questions) - _NAMED} more questions" if len(questions) > _NAMED else ""
        self.findings.append(
            Finding(
                Severity.WARNING,
                "check.undecided",
                self._undecided[0][0],
                "the work budget of the check was exhausted before it was decided"
                f" {', '.join(questions[:_NAMED])}{more}",
                "use shorter lists, fewer `any` and `not` in one condition, and globs with fewer"
                " stars",
            )
        )


_REVEALS: Final = {
    "HEAD": "HEAD reveals the object's metadata, length and etag",
    "COPY": "the copy has the content that GET protects",
}


class _ReadPast:
    """Accepts objects for which a given mandatory rule decides GET, and none decides ``method``."""

    def __init__(self, questions: Questions, index: int, method: str) -> None:
        self._questions = questions
        self._index = index
        self._method = method

    def refine(self, facts: Facts) -> Condition | None:
        decider = self._decider(facts, "GET")
        if decider != self._index:
            return self._excluding(decider, "GET")
        decider = self._decider(facts, self._method)
        is_covered = decider is not None and self._questions.rules[decider].is_mandatory
        return self._excluding(decider, self._method) if is_covered else None

    def _decider(self, facts: Facts, method: str) -> int | None:
        return self._questions.decider(replace(facts, method=method))

    def _excluding(self, index: int | None, method: str) -> Condition:
        if index is None:
            raise UndecidedError  # the engine and the solver disagree
        return Not(at(self._questions.rules[index].condition, {"method": method}))


def _names(rules: Sequence[Rule]) -> str:
    names = [rule.name for rule in rules[:_NAMED]]
    more = len(rules) - len(names)
    if len(rules) == 1:
        return f"rule {names[0]}"
    return f"rules {', '.join(names)}" + (f" and {more} more" if more else "")


def _s(names: str) -> str:
    """The ending of a verb in the third person singular, if ``names`` is a single rule."""
    return "s" if names.startswith("rule ") else ""
