"""The tree of merges; ``test_distributed`` runs them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from storlet_middleware.flows.merges import INNER, LAST, Tree


class Output:
    """An output of the numbers that it was made of."""

    def __init__(self, numbers: list[int], stage: str = "") -> None:
        self.numbers = numbers
        self.stage = stage
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def merge(outputs: Any, stage: str) -> Output:
    for output in outputs:
        # The output of the last merge is not merged again.
        assert output.stage in ("", INNER)
        output.close()
    numbers = itertools.chain.from_iterable(output.numbers for output in outputs)
    return Output(list(numbers), stage)


@pytest.mark.parametrize("width", [2, 3, 16])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 16, 17, 33, 100])
def test_every_output_is_merged_once_and_in_order(count: int, width: int) -> None:
    numbers = list(range(count))
    random.Random(count * width).shuffle(numbers)  # noqa: S311 - no secret
    tree = Tree(count, width, merge)
    for number in numbers:
        assert tree.root is None
        # Every fifth object was not selected.
        tree.add(number, None if number % 5 == 4 else Output([number]))
    assert tree.root.numbers == [number for number in range(count) if number % 5 != 4]
    assert not tree.root.is_closed
    assert tree.root.stage == LAST


def test_an_output_that_cannot_be_closed_leaves_no_other_open() -> None:
    class Failing(Output):
        def close(self) -> None:
            raise OSError(5, "Input/output error")

    tree, others = Tree(5, 5, merge), [Output([number]) for number in (0, 2)]
    tree.add(0, others[0])
    tree.add(1, Failing([1]))
    tree.add(2, others[1])
    with pytest.raises(OSError, match="Input/output"):
        tree.close()
    assert [output.is_closed for output in others] == [True, True]


def test_outputs_that_were_not_merged_are_released() -> None:
    tree, outputs = Tree(4, 2, merge), [Output([number]) for number in range(3)]
    for number, output in enumerate(outputs):
        tree.add(number, output)
    tree.close()
    assert [output.is_closed for output in outputs] == [True] * 3
    assert tree.root is None
