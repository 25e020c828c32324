"""Work budgets for searches: counted in steps, not in seconds, so results are reproducible.

Whether rules can match is a satisfiability question, which is hard in the worst case: a rules
object can contain any formula of its tests.  Each search spends steps from a budget; if the budget
is exhausted, the question is reported as undecided.
"""

from __future__ import annotations


class UndecidedError(Exception):
    """The question was not decided within the budget."""


class Budget:
    """A decreasing number of steps.

    :param steps: the limit; one step takes about five microseconds.
    :param parent: a shared budget that is charged as well, such as the total for a rules object.
    """

    def __init__(self, steps: int, parent: Budget | None = None) -> None:
        self.left = steps
        self._parent = parent

    def spend(self, steps: int = 1) -> None:
        """Charge ``steps``; raise :class:`UndecidedError` if the budget is exhausted."""
        self.left -= steps
        if self.left < 0:
            raise UndecidedError
        if self._parent is not None:
            self._parent.spend(steps)
