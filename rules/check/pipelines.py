"""Checks of a rule's storlets: existence, compatible content types, and the callers' permissions.

:class:`StorletFacts` come from the registration of a storlet.  Unknown properties are not checked.
Content types are what the storlet's author declares.  A run is not restricted to them, so types
that do not fit are warnings, never errors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rules.check.questions import Answer, Questions, present
from rules.conditions import media_type
from rules.example import describe
from rules.model import (
    All,
    Any,
    Condition,
    Finding,
    Not,
    Operator,
    Place,
    Rule,
    Run,
    Severity,
    Step,
    Test,
)
from rules.rewriting import READING


@dataclass(frozen=True)
class StorletFacts:
    """Known properties of a storlet.

    :param input_types: declared content types of inputs; ``text/*`` is a prefix; empty means any.
    :param output_type: declared content type of the output; ``None`` if not declared.
    :param may_run: the callers that may run it, as a condition on ``user``, ``project``,
        ``domain``, ``roles``, ``anonymous`` and ``signed``; ``None`` if not known.
    """

    name: str
    exists: bool = True
    input_types: tuple[str, ...] = ()
    output_type: str | None = None
    may_run: Condition | None = None


#: Finds a request that runs the steps and satisfies a condition.
FindRequest: TypeAlias = Callable[[Condition], Answer | None]

READS: Final = Test("method", Operator.ONE_OF, READING)
_STORLET_HELP: Final = "upload the storlet first, or correct its name"


def has_accepted_type(storlet: StorletFacts) -> Condition:
    """The object's content type is one that ``storlet`` accepts."""
    return Any(tuple(map(_has_type, storlet.input_types))) if storlet.input_types else All()


def _has_type(input_type: str) -> Test:
    plain = media_type(input_type) or ""
    if plain in {"*", "*/*"}:
        return Test("content-type", Operator.PREFIX, "")
    if plain.endswith("/*"):
        return Test("content-type", Operator.PREFIX, plain.removesuffix("*"))
    return Test("content-type", Operator.EXACT, plain)


def _as_written(input_types: Sequence[str]) -> str:
    """The text of a condition for these types; in a rule, a ``*`` stands for itself."""
    tests = [_has_type(each) for each in input_types]
    words = [str(each.operand) for each in tests if each.operator is Operator.EXACT]
    choices = [
        f"content-type: {{prefix: {each.operand}}}"
        for each in tests
        if each.operator is Operator.PREFIX
    ]
    if len(words) == 1:
        choices.append(f"content-type: {words[0]}")
    elif words:
        choices.append(f"content-type: [{', '.join(words)}]")
    if len(choices) == 1:
        return choices[0]
    return f"any: [{', '.join(f'{{{each}}}' for each in choices)}]"


def accepts(storlet: StorletFacts, content_type: str) -> bool:
    """Whether ``storlet`` accepts this type."""
    plain = media_type(content_type) or ""
    return not storlet.input_types or any(
        plain.startswith(str(test.operand))
        if test.operator is Operator.PREFIX
        else plain == test.operand
        for test in map(_has_type, storlet.input_types)
    )


def output_type(rule: Rule, storlets: Mapping[str, StorletFacts]) -> str | None:
    """The content type of the output of ``rule``, if known."""
    if not isinstance(rule.action, Run):
        return None
    last = storlets.get(rule.action.steps[-1].storlet)
    return media_type(last.output_type) if last is not None and last.exists else None


class PipelineCheck:
    """Findings about the storlets of one rule.

    :param index: of the rule, which can match.
    :param example: a request that the rule decides.
    """

    def __init__(
        self,
        questions: Questions,
        storlets: Mapping[str, StorletFacts],
        index: int,
        example: Answer,
    ) -> None:
        self._questions = questions
        self._storlets = storlets
        self._index = index
        self._rule = questions.rules[index]
        self._example = describe(example.facts)

    def findings(self) -> Iterator[Finding]:
        """Evaluated lazily: an undecided question ends the checks."""
        action = self._rule.action
        if not isinstance(action, Run):
            return
        reverse = action.reverse.steps if action.reverse else ()
        yield from self._missing([*action.steps, *reverse])
        yield from self._links([*action.steps, *reverse])
        yield from self._input(action.steps[0])
        for step in action.steps:
            yield from self._access(step, lambda also: self._questions.match(self._index, also))
        if action.reverse:
            condition = action.reverse.condition
            for step in reverse:
                yield from self._access(
                    step, lambda also: self._questions.example(condition, READS, also)
                )

    def _known(self, step: Step) -> StorletFacts | None:
        storlet = self._storlets.get(step.storlet)
        return storlet if storlet is not None and storlet.exists else None

    def _missing(self, steps: Iterable[Step]) -> Iterator[Finding]:
        for step in steps:
            if self._known(step) is None:
                yield self._finding(
                    Severity.ERROR,
                    "storlet.missing",
                    step.place,
                    f"rule {self._rule.name} runs {step.storlet}, which does not exist:"
                    " the example request would fail",
                    _STORLET_HELP,
                    self._example,
                )

    def _links(self, steps: Sequence[Step]) -> Iterator[Finding]:
        """Type mismatches between consecutive storlets, including the steps of the reverse."""
        for step, following in itertools.pairwise(steps):
            source, target = self._known(step), self._known(following)
            if source is None or source.output_type is None:
                continue
            if target is None or accepts(target, source.output_type):
                continue
            text = (
                f"rule {self._rule.name}: {step.storlet} declares the output {source.output_type},"
                f" but the next storlet, {following.storlet}, declares that it accepts only"
                f" {', '.join(target.input_types)}: the example request runs both"
            )
            help_text = (
                "insert a storlet that converts the content type, change the order, or correct what"
                " the storlets declare"
            )
            yield self._finding(
                Severity.WARNING, "pipeline.type", following.place, text, help_text, self._example
            )

    def _input(self, step: Step) -> Iterator[Finding]:
        storlet = self._known(step)
        if storlet is None or not storlet.input_types:
            return
        accepted = has_accepted_type(storlet)
        wrong = self._questions.match(self._index, present("content-type"), Not(accepted))
        if wrong is None:
            return
        is_possible = self._questions.match(self._index, accepted) is not None
        which = "some objects" if is_possible else "only objects"
        text = (
            f"rule {self._rule.name} matches {which} that {step.storlet} does not accept"
            f" (it declares {', '.join(storlet.input_types)}), as in the example request"
        )
        help_text = f"restrict `when` to accepted objects: {_as_written(storlet.input_types)}"
        yield self._finding(
            Severity.WARNING, "pipeline.input", step.place, text, help_text, describe(wrong.facts)
        )

    def _access(self, step: Step, find: FindRequest) -> Iterator[Finding]:
        storlet = self._known(step)
        if storlet is None or storlet.may_run is None:
            return
        refused = find(Not(storlet.may_run))
        if refused is None:
            return
        is_possible = find(storlet.may_run) is not None
        which = "some callers" if is_possible else "only callers"
        text = (
            f"rule {self._rule.name} matches {which} without permission to run {step.storlet},"
            " as in the example request"
        )
        help_text = f"grant them read access to {step.storlet}, or exclude them in `when`"
        severity = Severity.WARNING if is_possible else Severity.ERROR
        yield self._finding(
            severity, "storlet.access", step.place, text, help_text, describe(refused.facts)
        )

    def _finding(
        self, severity: Severity, code: str, place: Place, text: str, help_text: str, example: str
    ) -> Finding:
        return Finding(
            severity, code, place if place.line else self._rule.place, text, help_text, example
        )
