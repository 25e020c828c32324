"""What is wrong with rules that are well written: found when they are uploaded, each with a request that shows it.

========================== ======== ====================================================================================
code                       severity
========================== ======== ====================================================================================
``rule.never-holds``       error    a condition that no request meets
``rule.never-matches``     error    earlier rules decide every request that meets it
``mandatory.useless``      error    the same of a mandatory rule, and an earlier ``allow`` is among these
``mandatory.allowed-past`` warning  an earlier ``allow`` decides some of a mandatory rule's requests
``mandatory.preceded``     warning  an earlier ordinary ``run`` or ``deny`` does, when the client asks for no storlet
``mandatory.read-past``    warning  GET of an object is covered, and HEAD or COPY of the same one is not
``rule.only-when-asked``   warning  earlier rules decide every request that does not ask for a storlet itself
``storlet.missing``        error    a storlet that does not exist
``storlet.access``         both     callers that match may not run the storlet: only such (error), or some (warning)
``pipeline.type``          error    a storlet does not take what the one before it gives
``pipeline.input``         both     the first storlet does not take the matching objects: any (error), or some (warning)
``rules.undo-one-another`` warning  each of two rules is triggered by the content type that the other one makes
``rules.cycle``            warning  the same of more rules, in a circle (:mod:`rules.check.cycles`)
``check.undecided``        warning  the work that a check may do was used up before it had an answer
========================== ======== ====================================================================================

An error is certain and never meant: it refuses the upload.  A warning may be meant, and is accepted by whoever says so.

The answers are exact for everything a condition can say (:mod:`rules.check.solver`).  Every example was evaluated by the engine
before it is shown; one with ``header.x-run-storlet`` is a client's that asks for a storlet itself.  What a check costs is bounded in steps, whatever the rules say, and an answer that was not found within
the bound is no answer: it is reported as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from rules.check.budget import UndecidedError
from rules.check.cycles import CycleCheck, at
from rules.check.pipelines import READS, PipelineCheck, StorletFacts
from rules.check.questions import UNASKED, Answer, Cover, Questions, parts_of, present
from rules.engine import gives_way
from rules.example import describe, show
from rules.facts import Facts
from rules.model import (
    Action,
    All,
    Allow,
    Condition,
    Deny,
    Finding,
    Not,
    Place,
    Rule,
    RuleSet,
    Run,
    Severity,
    Test,
)

#: Conditions with more parts are not searched for those that exclude one another.
_MANY_PARTS: Final = 40
#: How many rules a finding names.
_NAMED: Final = 5


def check(rules: RuleSet, storlets: Mapping[str, StorletFacts] | None) -> tuple[Finding, ...]:
    """Everything that is wrong with ``rules``, in their order.

    :param storlets: the registered storlets by name; without them (``None``) what the rules run is not checked.
    """
    checker = _Checker(rules, storlets)
    checker.run()
    return tuple(sorted(checker.findings, key=lambda each: (each.place.line, each.place.column)))


class _Checker:
    def __init__(self, rules: RuleSet, storlets: Mapping[str, StorletFacts] | None) -> None:
        self._storlets = storlets
        self._questions = Questions(rules)
        self._rules = self._questions.rules
        #: Rules that can match, each with a request that it decides.
        self._alive: dict[int, Answer] = {}
        #: Of these, the ones that match only where the client asks for a storlet.
        self._only_asked: set[int] = set()
        self._undecided: list[tuple[Place, str]] = []
        self.findings: list[Finding] = []

    def run(self) -> None:
        for index, rule in enumerate(self._rules):
            self._collect(
                partial(self._matching, index), rule.place, f"whether rule {rule.name} can match"
            )
        for index in list(self._alive):
            self._check_alive(index)
        if self._storlets is not None:
            running = [index for index in self._alive if isinstance(self._rules[index].action, Run)]
            circles = CycleCheck(self._questions, self._storlets, running)
            place = self._rules[0].place if self._rules else Place()
            self._collect(circles.findings, place, "whether rules trigger one another in a circle")
        self._report_undecided()

    def _check_alive(self, index: int) -> None:
        rule = self._rules[index]
        if rule.is_mandatory:
            what = f"whether the mandatory rule {rule.name} can be got past"
            self._collect(partial(self._got_past, index), rule.place, what)
        if isinstance(rule.action, Run):
            what = f"whether what rule {rule.name} runs fits"
            self._collect(partial(self._running, index), rule.place, what)

    def _collect(
        self, findings: Callable[[], Iterator[Finding]], place: Place, question: str
    ) -> None:
        try:
            for finding in findings():
                self.findings.append(finding)
        except UndecidedError:
            self._undecided.append((place, question))

    # --- rules that never match ---------------------------------------------------------------------------------------

    def _matching(self, index: int) -> Iterator[Finding]:
        rule = self._rules[index]
        example = self._questions.example(rule.condition)
        if example is None:
            yield self._never_holds(rule.name, rule.place, rule.condition)
            return
        if example.index == index and not example.facts.asks_for_storlet:
            self._alive[index] = example
            return
        unasked = self._questions.cover(index, UNASKED)
        found = (
            self._questions.cover(index)
            if isinstance(unasked, Cover) and not gives_way(rule)
            else unasked
        )
        if isinstance(found, Cover):
            yield self._covered(rule, [self._rules[each] for each in found.indices], example)
            return
        self._alive[index] = found
        if isinstance(unasked, Cover) and unasked.indices:
            self._only_asked.add(index)
            yield from self._matches_only_when_asked(
                rule, [self._rules[each] for each in unasked.indices]
            )

    def _matches_only_when_asked(self, rule: Rule, covering: Sequence[Rule]) -> Iterator[Finding]:
        example = self._questions.example(rule.condition, UNASKED)
        if example is None:
            return
        names = _names(covering)
        yield Finding(
            Severity.WARNING,
            "rule.only-when-asked",
            rule.place,
            f"rule {rule.name} can match only where the client asks for a storlet itself (X-Run-Storlet): {names} before it "
            f"decide{_s(names)} every other request that it would match, such as this one",
            f"move {rule.name} before {covering[0].name}, or accept this warning if that is meant",
            describe(example.facts),
        )

    def _covered(self, rule: Rule, covering: Sequence[Rule], example: Answer) -> Finding:
        decider = "" if example.index is None else self._rules[example.index].name
        text = f"rule {rule.name} can never match: {_names(covering)} before it"
        text += f" decide{'s' if len(covering) == 1 else ''} every request that it would match; of this request, {decider} does"
        is_useless = rule.is_mandatory and any(isinstance(each.action, Allow) for each in covering)
        if is_useless:
            text = f"the mandatory {text}, and what is allowed there goes past it"
        return Finding(
            Severity.ERROR,
            "mandatory.useless" if is_useless else "rule.never-matches",
            rule.place,
            text,
            f"move {rule.name} before {covering[0].name}, let that match less, or remove {rule.name}",
            describe(example.facts),
        )

    def _never_holds(self, name: str, place: Place, condition: Condition) -> Finding:
        parts = self._excluding(condition)
        example = self._questions.example(*parts[:-1])
        text = f"the condition of rule {name} can never hold"
        if len(parts) > 1:
            shown = [show(part) for part in parts]
            text += f": {'; '.join(shown)} exclude one another; this request meets all of these but the last"
        culprit = next(
            (part.place for part in reversed(parts) if isinstance(part, Test) and part.place.line),
            place,
        )
        help_text = (
            "change one of them; values of which one is enough go into one list or under `any`"
        )
        facts = describe(example.facts) if example else ""
        return Finding(Severity.ERROR, "rule.never-holds", culprit, text, help_text, facts)

    def _excluding(self, condition: Condition) -> list[Condition]:
        """As few parts of a condition as cannot hold together."""
        parts = list(parts_of(condition))
        if len(parts) > _MANY_PARTS:
            return [condition]
        for part in list(parts):
            fewer = [each for each in parts if each is not part]
            if self._questions.example(*fewer) is None:
                parts = fewer
        return parts

    # --- mandatory rules ----------------------------------------------------------------------------------------------

    def _got_past(self, index: int) -> Iterator[Finding]:
        rule = self._rules[index]
        for answer, names in self._deciding(index, (Allow,)):
            yield Finding(
                Severity.WARNING,
                "mandatory.allowed-past",
                rule.place,
                f"the mandatory rule {rule.name} does not apply to what {names} before it allow{_s(names)}, such as this request",
                f"move {rule.name} up, or accept this warning if that is meant",
                describe(answer.facts),
            )
        if index not in self._only_asked:
            yield from self._preceded(index)
        yield from self._read_past(index)

    def _preceded(self, index: int) -> Iterator[Finding]:
        """Not got around, as an explicit storlet comes to the mandatory rule; but what this does is not done."""
        rule = self._rules[index]
        for answer, names in self._deciding(index, (Run, Deny)):
            yield Finding(
                Severity.WARNING,
                "mandatory.preceded",
                rule.place,
                f"{names} before the mandatory rule {rule.name} decide{_s(names)} some of its requests, such as this one: unless the "
                f"client asks for a storlet itself, {rule.name} does nothing there",
                f"move {rule.name} up, or make the other mandatory as well",
                describe(answer.facts),
            )

    def _read_past(self, index: int) -> Iterator[Finding]:
        """Only where its condition leaves HEAD or COPY out by name: the parser adds them to GET."""
        rule = self._rules[index]
        for method in ("HEAD", "COPY"):
            covered, left = (
                at(rule.condition, {"method": "GET"}),
                at(rule.condition, {"method": method}),
            )
            if covered == left:
                continue
            refinement = _ReadPast(self._questions, index, method)
            facts = self._questions.joint(
                [present("object"), covered, Not(left)], refinement.refine
            )
            if facts is not None:
                yield Finding(
                    Severity.WARNING,
                    "mandatory.read-past",
                    rule.place,
                    f"the mandatory rule {rule.name} applies to GET and not to {method} of the same object, such as this request: "
                    f"{_TELLS[method]}",
                    f"let {rule.name} apply to {method} as well, or accept this warning if that is meant",
                    describe(replace(facts, method=method)),
                )

    def _deciding(
        self, index: int, kinds: tuple[type[Action], ...]
    ) -> Iterator[tuple[Answer, str]]:
        """At most one: a request that rule ``index`` would match but an ordinary rule of these kinds decides, and which do."""
        found: dict[int, Answer] = {}
        for each in self._alive:
            earlier = self._rules[each]
            if each >= index or len(found) > _NAMED:
                break
            if (
                isinstance(earlier.action, kinds)
                and not earlier.is_mandatory
                and self._questions.may_meet(each, index)
            ):
                answer = self._questions.match(each, self._rules[index].condition)
                found |= {each: answer} if answer is not None else {}
        if found:
            yield next(iter(found.values())), _names([self._rules[each] for each in found])

    # --- what is run --------------------------------------------------------------------------------------------------

    def _running(self, index: int) -> Iterator[Finding]:
        rule = self._rules[index]
        reverse = rule.action.reverse if isinstance(rule.action, Run) else None
        if reverse is not None and self._questions.example(reverse.condition, READS) is None:
            yield self._never_holds(
                f"{rule.name} (on read)", rule.place, All((READS, reverse.condition))
            )
        elif self._storlets is not None:
            yield from PipelineCheck(
                self._questions, self._storlets, index, self._alive[index]
            ).findings()

    # --- what was not found out ---------------------------------------------------------------------------------------

    def _report_undecided(self) -> None:
        """One finding for all: they have one cause."""
        if not self._undecided:
            return
        questions = [question for _place, question in self._undecided]
        more = f" and {len(questions) - _NAMED} more questions" if len(questions) > _NAMED else ""
        self.findings.append(
            Finding(
                Severity.WARNING,
                "check.undecided",
                self._undecided[0][0],
                f"within the work that a check may do it was not found out {', '.join(questions[:_NAMED])}{more}",
                "shorter lists, fewer `any` and `not` in one condition, and globs with fewer stars are easier to check",
            )
        )


_TELLS: Final = {
    "HEAD": "it tells the object's metadata, length and etag",
    "COPY": "whoever may read the copy reads what GET may not give",
}


class _ReadPast:
    """Takes an object of which GET comes to a certain mandatory rule, and another method to no mandatory one."""

    def __init__(self, questions: Questions, index: int, method: str) -> None:
        self._questions = questions
        self._index = index
        self._method = method

    def refine(self, facts: Facts) -> Condition | None:
        decider = self._decider(facts, "GET")
        if decider != self._index:
            return self._but(decider, "GET")
        decider = self._decider(facts, self._method)
        is_covered = decider is not None and self._questions.rules[decider].is_mandatory
        return self._but(decider, self._method) if is_covered else None

    def _decider(self, facts: Facts, method: str) -> int | None:
        return self._questions.decider(replace(facts, method=method))

    def _but(self, index: int | None, method: str) -> Condition:
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
    return "s" if names.startswith("rule ") else ""
