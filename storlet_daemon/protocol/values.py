"""``dataclass`` for the many small classes of a sandbox: it compiles no code for each class.

The library's decorator writes the source of ``__init__``, ``__repr__``, ``__eq__`` and, for a
frozen class, of three more methods, and compiles it. Idle sandboxes keep this code in memory: 0.6
MB of 8.4 for the classes of this package. The decorator here gives all classes the same methods,
which read the names of the fields when they are called.

``fields``, ``replace`` and ``asdict`` of the library work for the classes; type checkers take the
decorator for the library's.  A class may inherit only from one that the same decorator made.  It
may have an ``__init__`` and a ``__repr__`` of its own; other parts of the library's that the
decorator lacks are a ``TypeError``.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(kind: type | None = None, *, frozen: bool = False, eq: bool = True) -> Any:
        """As ``dataclasses.dataclass``; no other parameter is needed."""
        if kind is None:
            return lambda decorated: _complete(decorated, frozen=frozen, eq=eq)
        return _complete(kind, frozen=frozen, eq=eq)


_VALUES = "_values_of_fields"
"""Attribute of a class: the result of ``_values_of``."""
_UNKNOWN = frozenset(("__post_init__", "__eq__", "__hash__", "__setattr__", "__delattr__"))
"""Methods of a class that this decorator would not call, or would replace."""


def _complete(kind: type, *, frozen: bool, eq: bool) -> type:
    unknown = sorted(_UNKNOWN & vars(kind).keys())
    if kind.__doc__ is None:
        kind.__doc__ = kind.__name__  # else the library makes one and imports ``inspect``
    dataclasses.dataclass(init=False, repr=False, eq=False)(kind)
    fields = dataclasses.fields(kind)
    unknown += [each.name for each in fields if not (each.init and each.compare)]
    if unknown:
        raise TypeError(f"{kind.__qualname__}: a dataclass here cannot have {', '.join(unknown)}")
    methods: dict[str, Any] = {}
    if "__repr__" not in vars(kind):
        methods["__repr__"] = _repr
    if "__init__" not in vars(kind):
        methods["__init__"] = _initializer(fields)
    if eq:
        methods |= {"__eq__": _equals, "__hash__": _hash if frozen else None}
        methods[_VALUES] = _values_of(fields)
    if frozen:
        methods |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change}
    for name, method in methods.items():
        setattr(kind, name, method)
    return kind


def _values_of(fields: tuple[dataclasses.Field[Any], ...]) -> Callable[[Any], Any]:
    """A function that returns the values of an object with these fields, to compare and to hash."""
    return operator.attrgetter(*(each.name for each in fields)) if fields else type


def _initializer(fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    """``__init__`` of a class with these fields."""
    none = dataclasses.MISSING
    names = tuple(each.name for each in fields)
    known = frozenset(names)
    defaults = {each.name: each.default for each in fields if each.default is not none}
    factories = tuple(
        (each.name, each.default_factory) for each in fields if each.default_factory is not none
    )

    def initialize(self: Any, /, *values: Any, **named: Any) -> None:
        own = self.__dict__
        if defaults:
            own.update(defaults)
        if values:
            own.update(zip(names, values))  # noqa: B905  new in 3.10; workers have older versions too
            if named or len(values) > len(names):
                _check_positions(self, names, values, named)
        if named:
            own.update(named)
        if own.keys() != known:
            for name, factory in factories:
                if name not in own:
                    own[name] = factory()
            _check_names(self, names)

    return initialize


def _check_positions(
    self: Any, names: tuple[str, ...], values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    if len(values) > len(names):
        count = f"{len(names)} fields, but {len(values)} values were given"
        raise TypeError(f"{type(self).__name__} has {count}")
    twice = [name for name in names[: len(values)] if name in named] if named else ()
    if twice:
        raise TypeError(f"{type(self).__name__} got multiple values for {', '.join(twice)}")


def _check_names(self: Any, names: tuple[str, ...]) -> None:
    own = vars(self)
    missing = [name for name in names if name not in own]
    unknown = [name for name in own if name not in names]
    faults = [f"needs {', '.join(missing)}"] if missing else []
    faults += [f"has no field {', '.join(unknown)}"] if unknown else []
    if faults:
        raise TypeError(f"{type(self).__name__} {' and '.join(faults)}")


def _repr(self: Any) -> str:
    shown = [each.name for each in dataclasses.fields(self) if each.repr]
    values = (f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _equals(self: Any, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    values = getattr(type(self), _VALUES)
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(getattr(type(self), _VALUES)(self))


def _refuse_change(self: Any, name: str, *_: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
