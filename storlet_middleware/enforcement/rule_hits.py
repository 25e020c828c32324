"""Counts the operations that each rule decides, and logs the counts at intervals.

::

    rules hits account=AUTH_a seconds=60 deidentify=17 night=2 no-exports(audit)=4
    storlet.rules.decided.deny 1                  the same as metrics, of all accounts by action
    storlet.rules.audited.deny 1                  of rules with mode: audit

A metric has no label that a tenant chooses, so the names of rules are in the log only.  The counts
of a process are logged by the first operation after the end of an interval, so an idle process
keeps them.  A rule without hits is in no line.

The memory and the number of lines in an interval are bounded for any rules: the rules that exceed
a bound are counted together, as ``(others)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from rules.model import Rule
from rules.report import ACTIONS
from storlet_middleware import metrics
from storlet_middleware.concurrency import monotonic

#: The maximum number of rules in an interval that are counted by name, of one account and of all.
_OF_ACCOUNT: Final = 100
_OF_ALL: Final = 2_000
#: Rules in a line of the log.
_IN_LINE: Final = 20
_OTHERS: Final = "(others)"
#: Follows the name of an audited rule; names of rules have no parentheses.
_AUDITED: Final = "(audit)"


class RuleHits:
    """The counts of one proxy process.

    :param seconds: length of an interval; 0 logs nothing.
    """

    def __init__(self, logger: Any, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._logger = logger
        self._seconds = seconds
        self._clock = clock
        self._began = clock()
        self._counts: dict[str, dict[str, int]] = {}
        self._named = 0

    def count(self, account: str, rule: Rule) -> None:
        """Count an operation on ``account`` that ``rule`` decided, or would decide if enforced."""
        action = ACTIONS[type(rule.action)]
        if rule.is_audited:
            metrics.rule_audited(self._logger, action)
        else:
            metrics.rule_decided(self._logger, action)
        if not self._seconds:
            return
        now = self._clock()
        if now - self._began >= self._seconds:
            self._report(now)
        # Accounts beyond the bound share one row, so that they cost no memory.
        is_full = self._named >= _OF_ALL
        rows = self._counts.setdefault(
            account if account in self._counts or not is_full else _OTHERS, {}
        )
        name = rule.name + _AUDITED if rule.is_audited else rule.name
        if name not in rows and (is_full or len(rows) >= _OF_ACCOUNT):
            name = _OTHERS
        self._named += name not in rows
        rows[name] = rows.get(name, 0) + 1

    def _report(self, now: float) -> None:
        seconds, counts = now - self._began, self._counts
        self._began, self._counts, self._named = now, {}, 0
        for account, rows in counts.items():
            hits = [f"{name}={number}" for name, number in rows.items()]
            for first in range(0, len(hits), _IN_LINE):
                shown = " ".join(hits[first : first + _IN_LINE])
                shown_account = quote(account, safe="()")
                self._logger.info(
                    "rules hits account=%s seconds=%.0f %s", shown_account, seconds, shown
                )
