"""The cost of a rule set for a server that all accounts share: ``find(rules)`` returns errors.

================= =========================================================================
code              the cost
================= =========================================================================
``size.cost``     comparisons for one request, in the worst case
``size.storlets`` storlets that the rules name; an upload looks each of them up
================= =========================================================================

A proxy evaluates rules in its event loop, where other accounts' requests wait meanwhile.  So the
worst case counts: a request for which no rule is skipped and each test is evaluated.  The engine's
index avoids most of it for most requests, but the author of the rules also chooses the requests.

The cost is a number of comparisons, not a time, so it is the same on every machine.  It limits
uploads only: rules in force stay readable for a release with a lower limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rules import glob
from rules.evaluation import tests_of
from rules.model import Condition, Finding, Operator, Rule, RuleSet, Run, Severity, Test

#: The maximum cost.  A decision at this cost takes 0.9 ms in tests of one name, and 2.4 ms in tests
#: of 8,000 headers (one core of an AMD EPYC, Python 3.11).
MAX_COST: Final = 8_000
#: The maximum number of different storlets.
MAX_STORLETS: Final = 100
#: Comparisons that take as long as one unit of :func:`rules.glob.cost`: in values of at most 1,024
#: characters, and in values as long as a header.
_GLOB_IN_NAME: Final = 8
_GLOB_IN_VALUE: Final = 60
_NAMES: Final = frozenset(("container", "object"))


def of(rule: Rule) -> int:
    """The cost of ``rule``: of its condition, and of the condition of its reverse."""
    return 1 + sum(_of_test(test) for part in _conditions(rule) for test in tests_of(part))


def find(rules: RuleSet) -> tuple[Finding, ...]:
    """An error for each limit that ``rules`` exceeds; it names the rule to change."""
    return (*_too_expensive(rules), *_too_many_storlets(rules))


def _conditions(rule: Rule) -> Iterator[Condition]:
    yield rule.condition
    if isinstance(rule.action, Run) and rule.action.reverse is not None:
        yield rule.action.reverse.condition


def _of_test(test: Test) -> int:
    if test.operator is not Operator.GLOB:
        return 1
    factor = _GLOB_IN_NAME if test.fact in _NAMES else _GLOB_IN_VALUE
    return 1 + factor * glob.cost(str(test.operand))


def _too_expensive(rules: RuleSet) -> Iterator[Finding]:
    costs = [(of(rule), rule) for rule in rules.written]
    total = sum(cost for cost, _ in costs)
    if total <= MAX_COST:
        return
    cost, rule = max(costs, key=lambda each: each[0])
    yield Finding(
        Severity.ERROR,
        "size.cost",
        rule.place,
        f"the rules can cost {total:,} comparisons a request, and {MAX_COST:,} are allowed; rule"
        f" {rule.name} costs the most, {cost:,}",
        "write one list, such as {one-of: [..]}, for several tests of one value: it costs 1; and"
        " prefix or suffix for globs with text between two stars",
    )


def _too_many_storlets(rules: RuleSet) -> Iterator[Finding]:
    named: set[str] = set()
    for rule in rules.written:
        named |= _storlets(rule)
        if len(named) > MAX_STORLETS:
            yield Finding(
                Severity.ERROR,
                "size.storlets",
                rule.place,
                f"with rule {rule.name}, the rules name {len(named):,} different storlets, and"
                f" {MAX_STORLETS:,} are allowed",
                "use one storlet with parameters for several purposes",
            )
            return


def _storlets(rule: Rule) -> set[str]:
    if not isinstance(rule.action, Run):
        return set()
    reverse = rule.action.reverse.steps if rule.action.reverse is not None else ()
    return {step.storlet for step in (*rule.action.steps, *reverse)}
