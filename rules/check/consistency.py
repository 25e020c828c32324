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
from rules.check.cycles import CycleCheck
from rules.check.mandatory import NAMED, MandatoryCheck, ending, names_of
from rules.check.pipelines import READS, PipelineCheck, StorletFacts
from rules.check.questions import NOT_REQUESTED, Answer, Cover, Questions, parts_of
from rules.engine import gives_way
from rules.example import describe, show
from rules.model import All, Allow, Condition, Finding, Place, Rule, RuleSet, Run, Severity, Test

#: The maximum number of conjuncts that are searched for contradictions.
_MANY_PARTS: Final = 40


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
            mandatory = MandatoryCheck(
                self._questions,
                self._matching,
                index,
                hides_preceding=index in self._only_requested,
            )
            self._collect(mandatory.findings, rule.place, question)
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
        names = names_of(covering)
        yield Finding(
            Severity.WARNING,
            "rule.only-when-asked",
            rule.place,
            f"rule {rule.name} can match only if the client requests a storlet (X-Run-Storlet):"
            f" {names} before it decide{ending(names)} every other request that it would match,"
            " such as the example request",
            f"move {rule.name} before {covering[0].name}, or accept this warning if it is intended",
            describe(example.facts),
        )

    def _covered(self, rule: Rule, covering: Sequence[Rule], example: Answer) -> Finding:
        decider = "no rule" if example.index is None else f"rule {self._rules[example.index].name}"
        names = names_of(covering)
        text = (
            f"rule {rule.name} can never match: {names} before it decide{ending(names)} every"
            f" request that it would match; {decider} decides the example request"
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
        more = f" and {len(questions) - NAMED} more questions" if len(questions) > NAMED else ""
        self.findings.append(
            Finding(
                Severity.WARNING,
                "check.undecided",
                self._undecided[0][0],
                "the work budget of the check was exhausted before it was decided"
                f" {', '.join(questions[:NAMED])}{more}",
                "use shorter lists, fewer `any` and `not` in one condition, and globs with fewer"
                " stars",
            )
        )
