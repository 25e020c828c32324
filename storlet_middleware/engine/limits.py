"""Limits of one invocation: four levels, each of which may lower what the level above allows.

1. *The node*: ``[limits]`` and ``[invocation]`` of its ``storlet.conf``.
2. *The trust class* of the storlet: ``[class:user]`` or ``[class:admin]`` there.
3. *The storlet*: ``X-Object-Meta-Storlet-<name>`` of the uploaded object.
4. *The request*: ``X-Storlet-Limit-<name>``.

:data:`TABLE` has a row for each limit, made from the options that have one; everything else here
interprets it.  To add a limit, add one row (:class:`~storlet_middleware.config.option.Limit`) to
:mod:`storlet_middleware.config.sections`, and enforce it in :func:`effective`.

Memory, Cpu, Processes, Open-Files and Scratch hold for all workers of the storlet with these limits
in a sandbox together (open files: for each process); the others for one invocation.  Sizes are
written ``65536``, ``64K``, ``256M`` or ``1.5 GiB`` (units of 1024), times ``30``, ``30s``,
``500ms``, ``2m`` or ``1h``, CPUs ``0.5`` or ``2``.

A value above the level above is refused when it is declared (at upload, in a request), with the
maximum in the answer; so is a value below what a storlet that does nothing needs.  When a storlet
runs, nothing is refused: the operator may have lowered a maximum since, and nodes may differ.  Then
the lower value holds.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from storlet_daemon.protocol.messages import Resources
from storlet_daemon.runtimes import table
from storlet_middleware import names
from storlet_middleware.config import OPTIONS, Limit, Option, TrustClass, nearest, option
from storlet_middleware.config.option import Kind
from storlet_middleware.engine.task import Deadlines, Limits, ServiceLimits
from storlet_middleware.errors import fault

#: Numbers by the name of their row.
Values = Mapping[str, float]

_SIZE: Final = re.compile(
    r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kmgt]?)(i?b)?", re.IGNORECASE | re.ASCII
)
_TIME: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(ms|s|m|h)?", re.IGNORECASE | re.ASCII)
_CPUS: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?")
_SECONDS_OF: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def read_size(text: str) -> float:
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError("want a size such as 65536, 64K, 256M or 1.5G")
    return int(float(match[1]) * (1 << (10 * " kmgt".index(match[2].lower() or " "))))


def read_number(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,12}", text):
        raise ValueError("want a whole number")
    return int(text)


def read_time(text: str) -> float:
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError("want a time such as 30, 30s, 500ms, 2m or 1h")
    return round(float(match[1]) * _SECONDS_OF[(match[2] or "s").lower()], 6)


def read_cpus(text: str) -> float:
    if not _CPUS.fullmatch(text):
        raise ValueError("want a number of CPUs such as 0.5 or 2")
    return float(text)


def show_size(value: float) -> str:
    """The inverse of :func:`read_size`, in the largest unit that gives a whole number."""
    for power, unit in ((40, "T"), (30, "G"), (20, "M"), (10, "K")):
        if value and not value % (1 << power):
            return f"{int(value) >> power}{unit}"
    return f"{int(value)} bytes"


def show_number(value: float) -> str:
    return f"{value:.12g}"


def show_time(value: float) -> str:
    return f"{value:.12g}s"


@dataclass(frozen=True)
class Form:
    """The form of a value; ``read`` raises ``ValueError`` with the expected form."""

    read: Callable[[str], float]
    show: Callable[[float], str]


SIZE: Final = Form(read_size, show_size)
COUNT: Final = Form(read_number, show_number)
TIME: Final = Form(read_time, show_time)
CPUS: Final = Form(read_cpus, show_number)
#: The form of a header's value, by the kind of the option in the file.
_FORMS: Final[Mapping[Kind, Form]] = {
    option.BYTES: SIZE,
    option.COUNT: COUNT,
    option.SECONDS: TIME,
    option.CPUS: CPUS,
}


@dataclass(frozen=True)
class Row:
    """One limit, made from ``option``, which declares it."""

    option_row: Option
    limit: Limit

    @property
    def name(self) -> str:
        """The end of its header names."""
        return self.limit.name

    @property
    def option(self) -> str:
        return self.option_row.name

    @property
    def form(self) -> Form:
        return _FORMS[self.option_row.kind]

    @property
    def least(self) -> float:
        """The least value for a storlet in any language."""
        return max(self.option_row.least, self.limit.least)

    def most(self, trust_class: TrustClass) -> float:
        """The maximum in a trust class; 0 when it has none."""
        return float(getattr(getattr(trust_class, self.option_row.section), self.option))

    def floor(self, language: str) -> float:
        """The least value for a storlet in ``language``; empty: in any."""
        row = table.language(language)
        own = getattr(row.least_limits, self.limit.resource) if row and self.limit.resource else 0
        return max(self.least, own)


TABLE: Final = tuple(Row(row, row.limit) for row in OPTIONS if row.limit)
_ROWS: Final = {row.name.lower(): row for row in TABLE}
_NAMES: Final = [row.name for row in TABLE]
#: Where the limits of a rule are.
_IN_RULES: Final = "limits: "
#: Other metadata of a storlet that may look like a limit's.
_NOT_LIMITS: Final = {
    row.name.removeprefix(names.STORLET_META).lower()
    for row in names.TABLE
    if row.scope in (names.Scope.STORLET, names.Scope.DEPENDENCY)
}


@dataclass(frozen=True)
class Effective:
    """The limits of one invocation; ``resources`` are those of its worker group."""

    resources: Resources
    deadlines: Deadlines
    limits: Limits


# --- values of headers ----------------------------------------------------------------------------


def declared(meta: Mapping[str, str], language: str = "") -> tuple[dict[str, float], list[str]]:
    """The limits in a storlet's metadata (header names in any case), and their faults."""
    prefix = names.STORLET_META.lower()
    given = {
        key.lower().removeprefix(prefix): value
        for key, value in meta.items()
        if key.lower().startswith(prefix)
    }
    known = {key: value for key, value in given.items() if key in _ROWS and value.strip()}
    return _read(known, names.STORLET_META, language)


def misspelt(meta: Iterable[str]) -> list[str]:
    """A fault for each key of a storlet's metadata that looks like a misspelt limit.

    Other keys are accepted: clients of OpenStack Storlets may set any metadata.
    """
    faults = []
    for header in meta:
        key = header.lower().removeprefix(names.STORLET_META.lower())
        if key in _ROWS or key in _NOT_LIMITS:
            continue
        stem = key.removeprefix("limit-")
        close = difflib.get_close_matches(stem, list(_ROWS), n=1, cutoff=0.8)
        if close or stem != key or stem.startswith("timeout"):
            meant = nearest(names.STORLET_META + stem.title(), _with(names.STORLET_META))
            faults.append(f"{header}: unknown limit{meant}")
    return faults


def requested(headers: Mapping[str, str]) -> tuple[dict[str, float], list[str]]:
    """The limits in a request's headers (names in any case), and their faults."""
    prefix = names.LIMIT_PREFIX.lower()
    given = {
        key.lower().removeprefix(prefix): value
        for key, value in headers.items()
        if key.lower().startswith(prefix)
    }
    values, faults = _read(
        {key: value for key, value in given.items() if key in _ROWS}, names.LIMIT_PREFIX, ""
    )
    unknown = [names.LIMIT_PREFIX + key.title() for key in given if key not in _ROWS]
    return values, faults + [
        f"{header}: unknown limit{nearest(header, _with(names.LIMIT_PREFIX))}" for header in unknown
    ]


def of_rule(rule: str, faults: Iterable[str]) -> list[str]:
    """``faults`` of the limits that a rule sets: no client's header is wrong."""
    return [f"rule {rule}: {each.replace(names.LIMIT_PREFIX, _IN_RULES)}" for each in faults]


def _with(prefix: str) -> list[str]:
    return [prefix + name for name in _NAMES]


def _read(
    given: Mapping[str, str], prefix: str, language: str
) -> tuple[dict[str, float], list[str]]:
    values: dict[str, float] = {}
    faults = []
    for key, row in _ROWS.items():
        text = given.get(key)
        if text is None:
            continue
        try:
            values[row.name] = row.form.read(text.strip())
        except ValueError as error:
            faults.append(fault(prefix + row.name, text.strip(), str(error)))
    return values, faults + below_minimum(values, prefix, language)


def below_minimum(values: Values, prefix: str, language: str) -> list[str]:
    """A fault for each value that is too small for a storlet in ``language``."""
    return [
        f"{prefix}{row.name}: {row.form.show(values[row.name])} is less than"
        f" {row.form.show(row.floor(language))},"
        f" the least {f'for a {language} storlet' if language else 'that makes sense'}"
        for row in TABLE
        if row.name in values and values[row.name] < row.floor(language)
    ]


def above_maximum(
    values: Values, prefix: str, trust_class: TrustClass, declared: Values | None = None
) -> list[str]:
    """A fault for each value above the trust class's, or above the one that was ``declared``."""
    faults = []
    for row in TABLE:
        if row.name not in values:
            continue
        shown, most, own = (
            row.form.show(values[row.name]),
            row.most(trust_class),
            (declared or {}).get(row.name),
        )
        if most and values[row.name] > most:
            faults.append(
                f"{prefix}{row.name}: {shown} is more than {row.form.show(most)},"
                " the most allowed here"
            )
        elif own is not None and values[row.name] > own:
            faults.append(
                f"{prefix}{row.name}: {shown} is more than {row.form.show(own)},"
                " which the storlet declares for itself"
            )
    return faults


# --- limits of an invocation ----------------------------------------------------------------------


def effective(trust_class: TrustClass, declared: Values, requested: Values) -> Effective:
    """The lowest of all levels, limit by limit; never refuses anything."""
    value = {row.name: _lowest(row, trust_class, declared, requested) for row in TABLE}
    sandbox = trust_class.limits
    return Effective(
        Resources(
            memory_bytes=int(value["Memory"]),
            cpus=value["Cpu"],
            processes=int(value["Processes"]),
            # The sandbox has these two limits already; a group sets only a lower one.
            open_files=_if_lower(int(value["Open-Files"]), sandbox.open_files),
            scratch_bytes=_if_lower(int(value["Scratch"]), sandbox.scratch_bytes),
        ),
        Deadlines(
            queue=trust_class.invocation.queue_seconds,
            first_byte=value["Timeout-First-Byte"],
            idle=value["Timeout-Idle"],
            total=value["Timeout-Total"],
        ),
        # The log is a file of the worker, and the kernel bounds those by the scratch space.
        Limits(
            int(value["Output"]),
            int(value["Metadata"]),
            log=int(min(value["Log"], value["Scratch"])),
            services=ServiceLimits(
                operations=int(value["Service-Operations"]),
                rate=int(value["Service-Rate"]),
                concurrency=int(value["Service-Concurrency"]),
                files=int(value["Service-Files"]),
                creations=int(value["Service-Creations"]),
                bytes=int(value["Service-Bytes"]),
            ),
        ),
    )


def in_force(trust_class: TrustClass, declared: Values, requested: Values) -> dict[str, str]:
    """The same as text, by lower-case name, in the form of a header."""
    values = {row: _lowest(row, trust_class, declared, requested) for row in TABLE}
    return {row.name.lower(): row.form.show(value) for row, value in values.items() if value}


def _lowest(row: Row, trust_class: TrustClass, *levels: Values) -> float:
    most = row.most(trust_class)
    declared = [level[row.name] for level in levels if level.get(row.name)]
    return min([*declared, *([most] if most else [])], default=0.0)


def _if_lower(value: int, sandbox: int) -> int:
    """``value`` of a worker group; 0 where it is that of the sandbox."""
    return 0 if value == sandbox else value


@functools.lru_cache(maxsize=4096)
def group_of(code_key: str, resources: Resources) -> str:
    """The name of the worker group that runs this code within these limits: 64 hex digits."""
    return hashlib.sha256(
        json.dumps([code_key, asdict(resources)], sort_keys=True).encode()
    ).hexdigest()


def published(trust_class: TrustClass) -> dict[str, float]:
    """The limits of a trust class for ``/info``, by the names of the options."""
    return {
        row.name: getattr(getattr(trust_class, row.section), row.name)
        for row in OPTIONS
        if row.is_published
    }
