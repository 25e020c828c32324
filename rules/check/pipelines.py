"""Do the storlets of a rule exist, fit together and fit the requests that the rule matches, and may its callers run them.

What is known of a storlet comes from its registration (:class:`StorletFacts`).  What is not known is not checked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rules.check.questions import Answer, Questions, present
from rules.conditions import READING, media_type
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


@dataclass(frozen=True)
class StorletFacts:
    """What a rules object's checker knows of a storlet.

    :param input_types: content types that it takes, ``text/*`` is all that begin so; none means any.
    :param output_type: content type of what it gives; ``None`` is not known before it runs.
    :param may_run: of which callers may run it: a condition on ``user``, ``project``, ``domain``, ``roles``, ``anonymous``
        and ``signed``, so that it can be compared with the rule's own; ``None`` is not known.
    """

    name: str
    exists: bool = True
    input_types: tuple[str, ...] = ()
    output_type: str | None = None
    may_run: Condition | None = None


#: Asks for a request that the steps run for and of which a condition holds.
Ask: TypeAlias = Callable[[Condition], Answer | None]

READS: Final = Test("method", Operator.ONE_OF, READING)
_STORLET_HELP: Final = "upload the storlet first, or write the name of one that is there"


def takes(storlet: StorletFacts) -> Condition:
    """The object's content type is one that ``storlet`` takes."""
    return Any(tuple(map(_takes, storlet.input_types))) if storlet.input_types else All()


def _takes(input_type: str) -> Test:
    plain = media_type(input_type) or ""
    if plain in {"*", "*/*"}:
        return Test("content-type", Operator.PREFIX, "")
    if plain.endswith("/*"):
        return Test("content-type", Operator.PREFIX, plain.removesuffix("*"))
    return Test("content-type", Operator.EXACT, plain)


def _as_written(input_types: Sequence[str]) -> str:
    """The part of a condition that asks for these; a ``*`` in a rule stands for itself."""
    tests = [_takes(each) for each in input_types]
    words = [str(each.operand) for each in tests if each.operator is Operator.EXACT]
    choices = [
        f"content-type: {{prefix: {each.operand}}}"
        for each in tests
        if each.operator is Operator.PREFIX
    ]
    if words:
        choices.append(
            f"content-type: {words[0]}"
            if len(words) == 1
            else f"content-type: [{', '.join(words)}]"
        )
    return (
        choices[0]
        if len(choices) == 1
        else f"any: [{', '.join(f'{{{each}}}' for each in choices)}]"
    )


def accepts(storlet: StorletFacts, content_type: str) -> bool:
    """Whether ``storlet`` takes this type."""
    plain = media_type(content_type) or ""
    return not storlet.input_types or any(
        plain.startswith(str(test.operand))
        if test.operator is Operator.PREFIX
        else plain == test.operand
        for test in map(_takes, storlet.input_types)
    )


def output_type(rule: Rule, storlets: Mapping[str, StorletFacts]) -> str | None:
    """The content type of what ``rule`` makes, where it is known."""
    if not isinstance(rule.action, Run):
        return None
    last = storlets.get(rule.action.steps[-1].storlet)
    return media_type(last.output_type) if last is not None and last.exists else None


class PipelineCheck:
    """Findings about what one rule runs.

    :param index: of the rule, which can match.
    :param example: a request that it decides.
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
        """Lazily: a question that is not decided ends the rest."""
        action = self._rule.action
        if not isinstance(action, Run):
            return
        reverse = action.reverse.steps if action.reverse else ()
        yield from self._missing([*action.steps, *reverse])
        yield from self._links([*action.steps, *reverse])
        yield from self._input(action.steps[0])
        for step in action.steps:
            yield from self._callers(step, lambda also: self._questions.match(self._index, also))
        if action.reverse:
            condition = action.reverse.condition
            for step in reverse:
                yield from self._callers(
                    step, lambda also: self._questions.example(condition, READS, also)
                )

    def _known(self, step: Step) -> StorletFacts | None:
        storlet = self._storlets.get(step.storlet)
        return storlet if storlet is not None and storlet.exists else None

    def _missing(self, steps: Iterable[Step]) -> Iterator[Finding]:
        for step in steps:
            if self._known(step) is None:
                text = f"rule {self._rule.name} runs {step.storlet}, which does not exist: this request would fail"
                yield self._finding(
                    Severity.ERROR,
                    "storlet.missing",
                    step.place,
                    text,
                    _STORLET_HELP,
                    self._example,
                )

    def _links(self, steps: Sequence[Step]) -> Iterator[Finding]:
        """Each storlet's output is the next one's input, also from the way in to the way out."""
        for step, following in itertools.pairwise(steps):
            giver, taker = self._known(step), self._known(following)
            if (
                giver is None
                or taker is None
                or giver.output_type is None
                or accepts(taker, giver.output_type)
            ):
                continue
            text = (
                f"rule {self._rule.name}: {step.storlet} gives {giver.output_type}, but {following.storlet} after it takes "
                f"{', '.join(taker.input_types)}: this request would fail"
            )
            help_text = "put a storlet between them that converts, or change their order"
            yield self._finding(
                Severity.ERROR, "pipeline.type", following.place, text, help_text, self._example
            )

    def _input(self, step: Step) -> Iterator[Finding]:
        storlet = self._known(step)
        if storlet is None or not storlet.input_types:
            return
        wrong = self._questions.match(self._index, present("content-type"), Not(takes(storlet)))
        if wrong is None:
            return
        is_possible = self._questions.match(self._index, takes(storlet)) is not None
        which = "some objects" if is_possible else "only objects"
        text = (
            f"rule {self._rule.name} matches {which} that {step.storlet} does not take (it takes "
            f"{', '.join(storlet.input_types)}), such as the one of this request"
        )
        help_text = f"let `when` ask for what it takes: {_as_written(storlet.input_types)}"
        severity = Severity.WARNING if is_possible else Severity.ERROR
        yield self._finding(
            severity, "pipeline.input", step.place, text, help_text, describe(wrong.facts)
        )

    def _callers(self, step: Step, ask: Ask) -> Iterator[Finding]:
        storlet = self._known(step)
        if storlet is None or storlet.may_run is None:
            return
        refused = ask(Not(storlet.may_run))
        if refused is None:
            return
        is_possible = ask(storlet.may_run) is not None
        who = "callers" if is_possible else "only callers"
        text = f"rule {self._rule.name} matches {who} who may not run {step.storlet}, such as the one of this request"
        help_text = f"give them the right to read {step.storlet}, or leave them out in `when`"
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
