"""Rewrites of conditions for the kind of their rule, so that rules fail closed.

**Missing values.**  Every test of a missing value is false, except ``present: false``.  Without
``not``, no condition matches by accident because a value is missing.  Below ``not``, no single
answer is right for every rule:

- ``not: {metadata: {classification: public}}`` in a *mandatory* rule must hold for an object
  without a classification; otherwise a client evades the rule by omitting the metadata.  The same
  is true for ``deny``.
- ``not: {user: intern}`` in an ``allow`` must not hold for a caller without a user name; otherwise
  a missing value would open what the rules close.  The same is true for an ordinary ``run``, which
  preempts the mandatory rules after it.

So the kind of the rule decides, and always fails closed.  In rules that restrict (``deny``,
``mandatory: true``), a test of a missing value is false and its ``not`` is true.  In rules that do
not restrict (``allow``, ordinary ``run``), both are false.  An author who means the missing value
writes ``present: false``.

An empty set is a missing value: ``not: {roles: intern}`` in an ``allow`` does not hold for a caller
without roles, just as ``not: {user: intern}`` does not hold for a caller without a name.

The evaluator does not distinguish the two kinds of rules: it uses plain logic, in which ``not`` of
false is true.  Instead, the parser rewrites the conditions of rules that do not restrict with
:func:`cautious`: below ``not``, a test becomes "the test holds, or the value is missing".  Code
that reads :class:`rules.model.Rule` needs no special case.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rules.conditions import TABLE
from rules.model import Any, Condition, Not, Operator, Test

# --- methods of mandatory rules -------------------------------------------------------------------

#: Methods that reveal what GET reveals: metadata and length, or the content of a copy.
READING: Final = frozenset(("GET", "HEAD", "COPY"))


def with_all_reads(condition: Condition) -> Condition:
    """The condition of a mandatory rule with HEAD and COPY added to GET, so they cannot evade it.

    Below ``not``, a test for GET stays unchanged: it exempts GET from the rule, and exempting HEAD
    and COPY as well would narrow the rule.  A ``not`` that exempts HEAD or COPY by name also stays:
    it is explicit, and :mod:`rules.check.consistency` warns about it.
    """
    return _with_all_reads(condition, below_not=False)


def _with_all_reads(condition: Condition, *, below_not: bool) -> Condition:
    if isinstance(condition, Not):
        return Not(_with_all_reads(condition.part, below_not=not below_not))
    if isinstance(condition, Test):
        return condition if below_not else _or_other_reads(condition)
    parts = tuple(_with_all_reads(part, below_not=below_not) for part in condition.parts)
    return replace(condition, parts=parts)


def _or_other_reads(test: Test) -> Test:
    named = test.operand if isinstance(test.operand, frozenset) else frozenset((test.operand,))
    if test.fact != "method" or "GET" not in named:
        return test
    return replace(test, operator=Operator.ONE_OF, operand=named | READING)


# --- containers of segments -----------------------------------------------------------------------

#: The ends of the names of the containers in which clients store the segments of large objects: of
#: ``swift upload`` and of Horizon, and of multipart uploads of the S3 API.
SEGMENT_ENDS: Final = ("_segments", "+segments")


def with_segments(condition: Condition) -> Condition:
    """The condition of a mandatory rule that also holds for the containers of segments.

    The segments of an object in ``docs`` are objects in ``docs_segments``: a caller who may read
    that container would read them as they are stored.  Below ``not``, a test stays unchanged, which
    widens the rule; it is also the way to leave out a container of segments.
    """
    return _with_segments(condition, below_not=False)


def _with_segments(condition: Condition, *, below_not: bool) -> Condition:
    if isinstance(condition, Not):
        return Not(_with_segments(condition.part, below_not=not below_not))
    if isinstance(condition, Test):
        return condition if below_not else _or_segments(condition)
    parts = tuple(_with_segments(part, below_not=below_not) for part in condition.parts)
    return replace(condition, parts=parts)


def _or_segments(test: Test) -> Condition:
    if test.fact != "container":
        return test
    match test.operator:
        case Operator.EXACT | Operator.ONE_OF:
            operand = test.operand if isinstance(test.operand, frozenset) else (test.operand,)
            names = {str(name) for name in operand}
            longer = {f"{name}{end}" for name in names for end in SEGMENT_ENDS}
            return replace(test, operator=Operator.ONE_OF, operand=frozenset(names | longer))
        case Operator.SUFFIX | Operator.GLOB if not str(test.operand).endswith("*"):
            others = (replace(test, operand=f"{test.operand}{end}") for end in SEGMENT_ENDS)
            return Any((test, *others))
    return test


# --- missing values below `not` -------------------------------------------------------------------


def cautious(condition: Condition) -> Condition:
    """The condition of a rule that does not restrict.

    If a value is missing, neither a test of it nor the ``not`` of that test holds.
    """
    return _cautious(condition, below_not=False)


def _cautious(condition: Condition, *, below_not: bool) -> Condition:
    if isinstance(condition, Not):
        return Not(_cautious(condition.part, below_not=not below_not))
    if isinstance(condition, Test):
        return _or_missing(condition) if below_not else condition
    parts = tuple(_cautious(part, below_not=below_not) for part in condition.parts)
    return replace(condition, parts=parts)


def _or_missing(test: Test) -> Condition:
    if test.operator is Operator.PRESENT or not TABLE[test.fact].is_optional:
        return test
    return Any((test, replace(test, operator=Operator.PRESENT, operand=False)))
