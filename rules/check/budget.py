"""How much work a search may do: counted in steps, not in seconds, so that the same rules get the same answer everywhere.

Whether rules can match is a question that is hard in the worst case (a rules object can hold any formula of its tests).
Who searches spends from a budget, and whoever gave the budget says honestly that the question was not decided.
"""

from __future__ import annotations


class UndecidedError(Exception):
    """The question was not decided, for want of work that is allowed."""


class Budget:
    """A number of steps that only goes down.

    :param steps: what may be spent; one step is some five microseconds.
    :param parent: a budget that the same steps are taken from, such as the one of all questions about a rules object.
    """

    def __init__(self, steps: int, parent: Budget | None = None) -> None:
        self.left = steps
        self._parent = parent

    def spend(self, steps: int = 1) -> None:
        """Take so many steps, or raise :class:`UndecidedError`."""
        self.left -= steps
        if self.left < 0:
            raise UndecidedError
        if self._parent is not None:
            self._parent.spend(steps)
