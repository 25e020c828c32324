"""Data classes without compiled code behave like the library's."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field

import pytest

from storlet_daemon.protocol.values import dataclass


@dataclass(frozen=True)
class Point:
    """A frozen class."""

    x: int
    y: int = 0
    notes: list[str] = field(default_factory=list)
    secret: str = field(default="", repr=False)


@dataclass(frozen=True)
class Named(Point):
    """A class that inherits fields."""

    name: str = "none"


@dataclass(eq=False)
class Counter:
    count: int
    seen: set[int] = field(default_factory=set)


@dataclass
class Pair:
    """A class that can change, compared by value."""

    one: int
    two: int


def test_values_are_given_by_position_or_by_name() -> None:
    point = Point(1, y=2)
    assert (point.x, point.y, point.notes, point.secret) == (1, 2, [], "")
    assert Point(y=2, x=1) == point
    assert vars(Point(1)) == {"x": 1, "y": 0, "notes": [], "secret": ""}


def test_each_object_gets_its_own_default_of_a_factory() -> None:
    assert Point(1).notes is not Point(1).notes
    assert Counter(1).seen is not Counter(1).seen


def test_a_function_as_a_default_stays_a_function() -> None:
    @dataclass(frozen=True)
    class Handler:
        handle: object = len

    assert Handler().handle is len


@pytest.mark.parametrize(
    ("values", "named", "fault"),
    [
        ((), {}, "Point needs x"),
        ((), {"x": 1, "z": 2}, "Point has no field z"),
        ((), {"z": 2}, "Point needs x and has no field z"),
        ((1,), {"x": 1}, "Point got multiple values for x"),
        ((1, 2, [], "", 5), {}, "Point has 4 fields, but 5 values were given"),
    ],
)
def test_wrong_values_are_refused(
    values: tuple[object, ...], named: dict[str, object], fault: str
) -> None:
    with pytest.raises(TypeError, match=f"^{fault}$"):
        Point(*values, **named)  # type: ignore[arg-type]


def test_a_frozen_object_does_not_change() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert point.x == 1


def test_equal_values_of_one_class_are_equal_and_have_one_hash() -> None:
    assert Point(1, notes=["a"]) == Point(1, notes=["a"]) != Point(1)
    assert Named(1) != Point(1)
    assert hash(Point(1, notes=())) == hash(Point(1, notes=()))  # type: ignore[arg-type]


def test_a_class_that_can_change_has_no_hash() -> None:
    pair = Pair(1, 2)
    pair.two = 3
    assert pair == Pair(1, 3)
    with pytest.raises(TypeError):
        hash(pair)


def test_without_eq_an_object_equals_itself_only() -> None:
    counter = Counter(1)
    assert counter == counter  # noqa: PLR0124  this is the test
    assert counter != Counter(1)
    assert len({counter, Counter(1)}) == 2


def test_a_text_of_an_object_leaves_out_hidden_fields() -> None:
    assert repr(Point(1, secret="s3cr3t")) == "Point(x=1, y=0, notes=[])"
    assert repr(Named(1)) == "Named(x=1, y=0, notes=[], name='none')"


def test_the_librarys_functions_work() -> None:
    point = Named(1, name="a")
    assert [each.name for each in dataclasses.fields(Named)] == [
        "x",
        "y",
        "notes",
        "secret",
        "name",
    ]
    assert dataclasses.replace(point, y=5) == Named(1, 5, name="a")
    assert dataclasses.asdict(point) == {
        "x": 1, "y": 0, "notes": [], "secret": "", "name": "a",
    }  # fmt: skip
    assert copy.deepcopy(point) == point
    assert pickle.loads(pickle.dumps(point)) == point  # noqa: S301  the test's own data


def test_all_classes_share_their_code() -> None:
    codes = {kind.__init__.__code__ for kind in (Point, Named, Counter, Pair)}  # type: ignore[misc]
    assert len(codes) == 1


def test_an_own_initializer_stays() -> None:
    @dataclass(frozen=True)
    class Own:
        x: int

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "x", int(text))

    assert Own("5").x == 5


def test_an_own_text_stays() -> None:
    """A class may hide values in its text."""

    @dataclass(frozen=True)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "Own"

    assert repr(Own(5)) == "Own"


@pytest.mark.parametrize(
    "part",
    [
        {"__post_init__": print},
        {"__eq__": print},
        {"__hash__": print},
        {"__setattr__": print},
        {"x": field(default=1, compare=False)},
        {"x": field(default=1, init=False)},
    ],
)
def test_a_feature_that_the_decorator_lacks_is_refused(part: dict[str, object]) -> None:
    kind = type("Kind", (), {"__annotations__": {"x": "int"}, **part})
    with pytest.raises(TypeError, match=r"^Kind: a dataclass here cannot have [\w, ]+$"):
        dataclass(frozen=True)(kind)
