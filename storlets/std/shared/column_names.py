"""Names of columns, which the engine changes if two of them differ in the case of letters only."""

from __future__ import annotations

from collections.abc import Sequence

from parameters import shown
from sql_check import SqlError
from sql_errors import OBJECT


def require_own(written: Sequence[str], read: Sequence[str]) -> None:
    """Raise :class:`SqlError` if the engine gives a column the name of another one.

    The second column of a name gets a number, and one without a name that of its place.

    :param written: the names that the object has, in its order.
    :param read: those that the engine gives its columns.
    """
    folded = {name.lower() for name in written}
    for before, name in zip(written, read):
        if before != name and name.lower() in folded:
            raise SqlError(
                f"{OBJECT}: column {shown(before)} would be {shown(name)}, which is another column:"
                " each needs a name that differs from all others, not in the case of letters only"
            )
