"""What one invocation of a storlet may use: four levels, each of which may lower what the one before allows.

1. *The node*: ``[limits]`` and ``[invocation]`` of its ``storlet.conf``.
2. *The trust class* of the storlet: ``[class:user]`` or ``[class:admin]`` there.
3. *The storlet*: ``X-Object-Meta-Storlet-<name>`` of the uploaded object.
4. *The request*: ``X-Storlet-Limit-<name>``.

:data:`TABLE` has a row for each limit; everything else here is its interpreter:

=================== ================================== ====== ===========================================================
name                option of ``storlet.conf``         form   what happens at the limit
=================== ================================== ====== ===========================================================
Memory              storlet_memory_bytes               bytes  ``storlet.limit.memory``; the storlet's workers end
Cpu                 storlet_cpus                       cpus   it runs slower
Processes           storlet_processes                  count  it cannot start more; ``storlet.limit.processes``
Open-Files          open_files                         count  it cannot open more; an error within the storlet
Scratch             scratch_bytes                      bytes  it cannot write more to /tmp; ``storlet.limit.scratch``
Output              output_bytes                       bytes  ``storlet.limit.output``
Metadata            metadata_bytes                     bytes  ``storlet.limit.metadata``
Log                 log_bytes                          bytes  the rest is dropped, and the log says so
Timeout-First-Byte  first_byte_seconds                 time   ``storlet.timeout.first_byte``
Timeout-Idle        idle_seconds                       time   ``storlet.timeout.idle``
Timeout-Total       total_seconds                      time   ``storlet.timeout.total``
=================== ================================== ====== ===========================================================

The first five hold for all workers of the storlet with these limits in a sandbox together (open files: for each process);
the others for one invocation.  Sizes are written ``65536``, ``64K``, ``256M`` or ``1.5 GiB`` (units of 1024), times ``30``,
``30s``, ``500ms``, ``2m`` or ``1h``, CPUs ``0.5`` or ``2``.

More than a level above allows is refused when it is said (at upload, in a request), with the most that is allowed, and so is
less than a storlet that does nothing would need.  Whether it still fits is another matter when a storlet runs: the operator
may have lowered a maximum since, and nodes may differ.  Then the lower value holds, and nothing is refused.
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
from storlet_middleware import names
from storlet_middleware.config import LEAST, TrustClass, nearest
from storlet_middleware.engine.invocation import Deadlines, Limits

#: Numbers by the name of their row.
Values = Mapping[str, float]

_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([kmgt]?)(i?b)?", re.IGNORECASE | re.ASCII)
_TIME: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?(ms|s|m|h)?", re.IGNORECASE | re.ASCII)
_CPUS: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?")
_SECONDS_OF: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
#: A fault quotes no more of what was sent.
_QUOTED: Final = 40


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
    """As :func:`read_size` reads it: in the largest unit that leaves a whole number."""
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
    """How a value is written: ``read`` raises ``ValueError`` with what is wanted, ``show`` is for messages."""

    read: Callable[[str], float]
    show: Callable[[float], str]


SIZE: Final = Form(read_size, show_size)
COUNT: Final = Form(read_number, show_number)
TIME: Final = Form(read_time, show_time)
CPUS: Final = Form(read_cpus, show_number)


@dataclass(frozen=True)
class Row:
    """One limit: its name in headers, how it is written, where its maximum is, and the least that makes sense.

    ``least_java`` is what a JVM needs beyond what a Python worker does.
    """

    name: str
    form: Form
    section: str
    option: str
    least: float
    least_java: float = 0

    def most(self, trust_class: TrustClass) -> float:
        """The maximum in a trust class; 0 when it has none."""
        return float(getattr(getattr(trust_class, self.section), self.option))

    def floor(self, language: str) -> float:
        """The least value for a storlet in ``language``."""
        return max(self.least, self.least_java if language == "java" else 0)


_M: Final = 1 << 20
TABLE: Final = (
    Row("Memory", SIZE, "limits", "storlet_memory_bytes", LEAST["storlet_memory_bytes"], 64 * _M),
    Row("Cpu", CPUS, "limits", "storlet_cpus", LEAST["storlet_cpus"]),
    Row("Processes", COUNT, "limits", "storlet_processes", LEAST["storlet_processes"], 48),
    Row("Open-Files", COUNT, "limits", "open_files", LEAST["open_files"]),
    Row("Scratch", SIZE, "limits", "scratch_bytes", LEAST["scratch_bytes"], 1 * _M),
    Row("Output", SIZE, "limits", "output_bytes", 1),
    Row("Metadata", SIZE, "limits", "metadata_bytes", LEAST["metadata_bytes"]),
    Row("Log", SIZE, "limits", "log_bytes", LEAST["log_bytes"]),
    Row("Timeout-First-Byte", TIME, "invocation", "first_byte_seconds", 0.1),
    Row("Timeout-Idle", TIME, "invocation", "idle_seconds", 0.1),
    Row("Timeout-Total", TIME, "invocation", "total_seconds", 0.1),
)
_ROWS: Final = {row.name.lower(): row for row in TABLE}
_NAMES: Final = [row.name for row in TABLE]
#: Other metadata of a storlet that may look like a limit's.
_NOT_LIMITS: Final = {
    name.removeprefix(names.STORLET_META).lower() for key, name in vars(names).items() if key.startswith("META_")
}


@dataclass(frozen=True)
class Effective:
    """What holds for one invocation: ``resources`` of its worker group, ``deadlines`` and ``limits`` of itself."""

    resources: Resources
    deadlines: Deadlines
    limits: Limits


# --- what is said ------------------------------------------------------------------------------------------------


def declared(meta: Mapping[str, str], language: str = "") -> tuple[dict[str, float], list[str]]:
    """The limits among a storlet's metadata (``X-Object-Meta-Storlet-*``, any case), and every fault in them."""
    prefix = names.STORLET_META.lower()
    given = {key.lower().removeprefix(prefix): value for key, value in meta.items() if key.lower().startswith(prefix)}
    known = {key: value for key, value in given.items() if key in _ROWS and value.strip()}
    return _read(known, names.STORLET_META, language)


def misspelt(meta: Iterable[str]) -> list[str]:
    """A fault for each key of a storlet's metadata that is no limit's, and was probably meant to be one.

    Others are left alone: the clients of OpenStack Storlets may set what they like.
    """
    faults = []
    for header in meta:
        key = header.lower().removeprefix(names.STORLET_META.lower())
        if key in _ROWS or key in _NOT_LIMITS:
            continue
        stem = key.removeprefix("limit-")
        close = difflib.get_close_matches(stem, list(_ROWS), n=1, cutoff=0.8)
        if close or stem != key or stem.startswith("timeout"):
            faults.append(
                f"{header}: unknown limit{nearest(names.STORLET_META + stem.title(), _with(names.STORLET_META))}"
            )
    return faults


def requested(headers: Mapping[str, str]) -> tuple[dict[str, float], list[str]]:
    """The limits among a request's headers (``X-Storlet-Limit-*``, any case), and every fault in them."""
    prefix = names.LIMIT_PREFIX.lower()
    given = {
        key.lower().removeprefix(prefix): value for key, value in headers.items() if key.lower().startswith(prefix)
    }
    values, faults = _read({key: value for key, value in given.items() if key in _ROWS}, names.LIMIT_PREFIX, "")
    unknown = [names.LIMIT_PREFIX + key.title() for key in given if key not in _ROWS]
    return values, faults + [
        f"{header}: unknown limit{nearest(header, _with(names.LIMIT_PREFIX))}" for header in unknown
    ]


def _with(prefix: str) -> list[str]:
    return [prefix + name for name in _NAMES]


def _read(given: Mapping[str, str], prefix: str, language: str) -> tuple[dict[str, float], list[str]]:
    values: dict[str, float] = {}
    faults = []
    for row in TABLE:
        text = given.get(row.name.lower())
        if text is None:
            continue
        try:
            values[row.name] = row.form.read(text.strip())
        except ValueError as error:
            faults.append(f"{prefix}{row.name}: {text.strip()[:_QUOTED]!r}: {error}")
    return values, faults + too_little(values, prefix, language)


def too_little(values: Values, prefix: str, language: str) -> list[str]:
    """A fault for each value with which no storlet in ``language`` could run."""
    return [
        f"{prefix}{row.name}: {row.form.show(values[row.name])} is less than {row.form.show(row.floor(language))},"
        f" the least {f'for a {language} storlet' if language else 'that makes sense'}"
        for row in TABLE
        if row.name in values and values[row.name] < row.floor(language)
    ]


def too_much(values: Values, prefix: str, trust_class: TrustClass, declared: Values | None = None) -> list[str]:
    """A fault for each value that is more than the trust class allows, or the storlet itself has ``declared``."""
    faults = []
    for row in TABLE:
        if row.name not in values:
            continue
        shown, most, own = row.form.show(values[row.name]), row.most(trust_class), (declared or {}).get(row.name)
        if most and values[row.name] > most:
            faults.append(f"{prefix}{row.name}: {shown} is more than {row.form.show(most)}, the most allowed here")
        elif own is not None and values[row.name] > own:
            faults.append(
                f"{prefix}{row.name}: {shown} is more than {row.form.show(own)}, which the storlet declares for itself"
            )
    return faults


# --- what holds --------------------------------------------------------------------------------------------------


def effective(trust_class: TrustClass, declared: Values, requested: Values) -> Effective:
    """The lowest of all levels, limit by limit; never refuses anything."""
    value = {row.name: _lowest(row, trust_class, declared, requested) for row in TABLE}
    sandbox = trust_class.limits
    return Effective(
        Resources(
            memory_bytes=int(value["Memory"]),
            cpus=value["Cpu"],
            processes=int(value["Processes"]),
            # These two the sandbox has anyhow; nothing of its own for a group that does not lower them.
            open_files=_unless(sandbox.open_files, int(value["Open-Files"])),
            scratch_bytes=_unless(sandbox.scratch_bytes, int(value["Scratch"])),
        ),
        Deadlines(
            queue=trust_class.invocation.queue_seconds,
            first_byte=value["Timeout-First-Byte"],
            idle=value["Timeout-Idle"],
            total=value["Timeout-Total"],
        ),
        # The kernel bounds every file of the workers by the scratch space, and the log is one.
        Limits(int(value["Output"]), int(value["Metadata"]), log=int(min(value["Log"], value["Scratch"]))),
    )


def in_force(trust_class: TrustClass, declared: Values, requested: Values) -> dict[str, str]:
    """The same for people: what is limited, by the names of :data:`TABLE` in lower case, each as it would be written."""
    values = {row: _lowest(row, trust_class, declared, requested) for row in TABLE}
    return {row.name.lower(): row.form.show(value) for row, value in values.items() if value}


def _lowest(row: Row, trust_class: TrustClass, *levels: Values) -> float:
    most = row.most(trust_class)
    said = [level[row.name] for level in levels if level.get(row.name)]
    return min([*said, *([most] if most else [])], default=0.0)


def _unless(sandboxes: int, value: int) -> int:
    return 0 if value == sandboxes else value


@functools.lru_cache(maxsize=4096)
def group_of(code_key: str, resources: Resources) -> str:
    """The name of the worker group that runs this code within these limits: 64 hex digits."""
    return hashlib.sha256(json.dumps([code_key, asdict(resources)], sort_keys=True).encode()).hexdigest()


def published(trust_class: TrustClass) -> dict[str, float]:
    """The maxima of a trust class for ``/info``, by the names of the options."""
    return {row.option: getattr(getattr(trust_class, row.section), row.option) for row in TABLE}
