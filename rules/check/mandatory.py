"""Checks of a mandatory rule: requests that it is meant for, and does not decide or cover.

An earlier rule may decide them, another method may read the same object, and the segments of a
large object are objects of their own.  The codes are in :mod:`rules.check.consistency`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from rules.check.budget import UndecidedError
from rules.check.cycles import at
from rules.check.questions import Answer, Questions, present
from rules.example import describe
from rules.facts import Facts, ObjectFacts
from rules.model import (
    Action,
    Allow,
    Condition,
    Deny,
    Finding,
    Not,
    Operator,
    Rule,
    Run,
    Severity,
    Test,
)
from rules.rewriting import SEGMENT_ENDS

#: The maximum number of rules named in a finding.
NAMED: Final = 5
_GET: Final = Test("method", Operator.EXACT, "GET")
_REVEALS: Final = {
    "HEAD": "HEAD reveals the object's metadata, length and etag",
    "COPY": "the copy has the content that GET protects",
}


class MandatoryCheck:
    """The checks of the mandatory rule ``index``.

    :param matching: rules that can match, each with a request that it decides.
    :param hides_preceding: the rule matches only if the client requests a storlet, which is a
        finding of its own; then earlier rules decide all other requests.
    """

    def __init__(
        self,
        questions: Questions,
        matching: Mapping[int, Answer],
        index: int,
        *,
        hides_preceding: bool,
    ) -> None:
        self._questions = questions
        self._matching = matching
        self._index = index
        self._rule = questions.rules[index]
        self._hides_preceding = hides_preceding

    def findings(self) -> Iterator[Finding]:
        """Requests that the rule is meant for, and does not decide or cover."""
        rule = self._rule
        for answer, names in self._earlier_deciders((Allow,)):
            yield Finding(
                Severity.WARNING,
                "mandatory.allowed-past",
                rule.place,
                f"the mandatory rule {rule.name} does not apply to requests that {names} before it"
                f" allow{ending(names)}, such as the example request",
                f"move {rule.name} up, or accept this warning if it is intended",
                describe(answer.facts),
            )
        if not self._hides_preceding:
            yield from self._preceded()
        yield from self._read_past()
        yield from self._segments_past()

    def _preceded(self) -> Iterator[Finding]:
        """Ordinary rules do not let requests evade the rule, but they preempt its action."""
        rule = self._rule
        for answer, names in self._earlier_deciders((Run, Deny)):
            yield Finding(
                Severity.WARNING,
                "mandatory.preceded",
                rule.place,
                f"{names} before the mandatory rule {rule.name} decide{ending(names)} some of its"
                " requests, such as the example request: unless the client requests a storlet,"
                f" {rule.name} has no effect on them",
                f"move {rule.name} up, or make the earlier rule mandatory as well",
                describe(answer.facts),
            )

    def _read_past(self) -> Iterator[Finding]:
        """Only conditions that exclude HEAD or COPY by name: the parser adds them to GET."""
        rule = self._rule
        for method, reveals in _REVEALS.items():
            get, other = (at(rule.condition, {"method": each}) for each in ("GET", method))
            if get == other:
                continue
            refinement = _ReadPast(self._questions, self._index, method)
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

    def _segments_past(self) -> Iterator[Finding]:
        """An object that the rule covers, and whose segments no mandatory rule covers.

        It tries one object, so it does not find all of them.
        """
        rule = self._rule
        if self._questions.example(rule.condition, present("object"), _GET) is None:
            return
        answer = self._questions.match(self._index, present("object"), _GET)
        if answer is None:
            return
        segment = replace(
            answer.facts,
            container=f"{answer.facts.container}{SEGMENT_ENDS[0]}",
            object=f"{answer.facts.object}/1",
            stored=ObjectFacts(exists=True, content_type="application/octet-stream"),
        )
        decider = self._questions.decider(segment)
        if decider is None or not self._questions.rules[decider].is_mandatory:
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

    def _earlier_deciders(self, kinds: tuple[type[Action], ...]) -> Iterator[tuple[Answer, str]]:
        """Ordinary earlier rules of these kinds that decide requests which the rule matches.

        At most one item: a request that the first of them decides, and all their names.
        """
        found: dict[int, Answer] = {}
        for each in self._matching:
            earlier = self._questions.rules[each]
            if each >= self._index or len(found) > NAMED:
                break
            if not isinstance(earlier.action, kinds) or earlier.is_mandatory:
                continue
            if self._questions.may_meet(each, self._index):
                answer = self._questions.match(each, self._rule.condition)
                found |= {each: answer} if answer is not None else {}
        if found:
            yield (
                next(iter(found.values())),
                names_of([self._questions.rules[each] for each in found]),
            )


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


def names_of(rules: Sequence[Rule]) -> str:
    """The first names of ``rules``, as a subject; ``ending`` is that of its verb."""
    names = [rule.name for rule in rules[:NAMED]]
    more = len(rules) - len(names)
    if len(rules) == 1:
        return f"rule {names[0]}"
    return f"rules {', '.join(names)}" + (f" and {more} more" if more else "")


def ending(names: str) -> str:
    """The ending of a verb in the third person singular, if ``names`` is a single rule."""
    return "s" if names.startswith("rule ") else ""
