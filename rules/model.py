"""A rules object, parsed: frozen values, with the place in the text that each came from.

::

    RuleSet -> Rule -> Condition: All | Any | Not | Test
                    -> Action:    Run (Step, Step, ...) | Deny | Allow
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias


@dataclass(frozen=True)
class Place:
    """Where in the rules object something stands; both count from 1."""

    line: int = 0
    column: int = 0


# --- conditions -------------------------------------------------------------------------------------------------------


class Operator(Enum):
    """How a test compares the fact's value with its operand; :mod:`rules.conditions` says which fact takes which."""

    EXACT = "exact"  # str: equal
    GLOB = "glob"  # str: `*` any characters, also `/`; `?` one; `[abc]`, `[a-z]`, `[!abc]` one of (not of) these; nothing else
    PREFIX = "prefix"  # str
    SUFFIX = "suffix"  # str
    ONE_OF = "one-of"  # frozenset[str]: equal to one of these
    HAS = "has"  # frozenset[str]: of a set of values (roles) one is one of these; in lower case
    AT_LEAST = "at-least"  # int
    AT_MOST = "at-most"  # int
    WITHIN = "within"  # tuple of networks (ipaddress), or of (first, last) minutes of the week, both inclusive, in order and apart
    IS = "is"  # bool: of a fact that is true or false
    PRESENT = (
        "present"  # bool: the value is there (true) or missing (false); an empty set is missing
    )


@dataclass(frozen=True)
class Test:
    """One fact against one operand.

    :param fact: a name in :data:`rules.conditions.TABLE`, such as ``container`` or ``metadata``.
    :param key: of a fact that is a mapping (``metadata``, ``header``, ...): which entry, in lower case but for ``query``.
    """

    __test__ = False  # pytest would take it for a class of tests

    fact: str
    operator: Operator
    operand: object
    key: str | None = None
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True)
class All:
    """Every part holds; without parts it always does."""

    parts: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Any:
    """At least one part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Condition


Condition: TypeAlias = All | Any | Not | Test


# --- actions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Template:
    """A parameter's value with ``{object}``, ``{container}``, ``{user}``, ``{project}``, ``{method}`` or ``{metadata.x}`` in it.

    :param parts: literals and names by turns, beginning with a literal: ``("thumb-", "object", "")``.
    """

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One storlet of a pipeline.

    :param on: ``object``, ``proxy`` or ``None`` for the operator's default.
    :param limits: as in ``X-Storlet-Limit-*``: lower-case names without the prefix, values as written (``("memory", "64M")``).
    """

    storlet: str
    parameters: tuple[tuple[str, Template], ...] = ()
    on: str | None = None
    limits: tuple[tuple[str, str], ...] = ()
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True)
class Reverse:
    """What undoes on read what a rule did on the way in, for callers of whom ``condition`` holds."""

    steps: tuple[Step, ...]
    condition: Condition = All()


@dataclass(frozen=True)
class Run:
    """Run a pipeline: each storlet's output is the next one's input."""

    steps: tuple[Step, ...]
    reverse: Reverse | None = None


@dataclass(frozen=True)
class Deny:
    """Refuse the request."""

    message: str


@dataclass(frozen=True)
class Allow:
    """Ask no further rule; the request goes on as if there were none."""


Action: TypeAlias = Run | Deny | Allow


class Explicit(Enum):
    """What happens to a storlet that the client asks for where a mandatory rule runs one."""

    REFUSE = "refuse"
    AFTER = "after"


#: Headers of the source that never leave with a result: they say something of the source's own bytes and would be false of the
#: result, they belong to the one answer they came with, or they say where the source is kept.
NEVER_PASS: Final = frozenset(
    (
        "accept-ranges", "content-length", "content-md5", "content-range", "etag", "x-manifest-etag",
        "x-object-manifest", "x-static-large-object",
        "connection", "date", "keep-alive", "proxy-authenticate", "set-cookie", "trailer", "transfer-encoding",
        "upgrade", "www-authenticate", "x-openstack-request-id", "x-trans-id",
    )
)  # fmt: skip
#: Beginnings of such headers.  Metadata is not a header here: whoever passes headers on does not mean it.
NEVER_PASS_PREFIXES: Final = (
    "x-object-meta-",
    "x-object-sysmeta-",
    "x-object-transient-sysmeta-",
    "x-account-",
    "x-container-",
    "x-backend-",
    "x-storlet-",
    "x-symlink-target",
)


@dataclass(frozen=True)
class Passes:
    """Which names of the source's metadata and headers leave with the result; lower case, a ``*`` at the end is any rest.

    Whoever makes the answer asks :meth:`allows_metadata` and :meth:`allows_header`, and compares nothing itself: a wildcard
    also fits what must never leave, such as the source's etag, by which its bytes could be guessed.

    :param metadata: user metadata, without ``X-Object-Meta-``.
    :param headers: other headers, such as ``last-modified``.
    """

    metadata: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()

    def allows_metadata(self, name: str) -> bool:
        """Whether an item of user metadata leaves; ``name`` in any case, without ``X-Object-Meta-``."""
        return _is_named(_header_name(name), self.metadata)

    def allows_header(self, name: str) -> bool:
        """Whether another header leaves; ``name`` in any case."""
        return not never_passes(name) and _is_named(_header_name(name), self.headers)


def never_passes(name: str) -> bool:
    """Whether the source's header of that name stays behind, whatever a rule says."""
    plain = _header_name(name)
    return plain in NEVER_PASS or plain.startswith(NEVER_PASS_PREFIXES)


def _header_name(name: str) -> str:
    """Swift and WSGI do not tell ``_`` from ``-`` in names of headers, so neither may hide one from us."""
    return name.strip().lower().replace("_", "-")


def _is_named(name: str, patterns: tuple[str, ...]) -> bool:
    return bool(name) and any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )


@dataclass(frozen=True)
class Rule:
    """One rule.

    :param name: unique in its set; clients see it.
    :param passes: ``None`` means nothing of the source for a mandatory rule, and what an unruled run passes on otherwise.
    """

    name: str
    condition: Condition
    action: Action
    is_mandatory: bool = False
    explicit: Explicit = Explicit.REFUSE
    passes: Passes | None = None
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True)
class RuleSet:
    """A rules object, in its order: the first rule that matches decides.

    :param version: SHA-256 of the text, hexadecimal.
    """

    rules: tuple[Rule, ...]
    version: str = ""


# --- findings ---------------------------------------------------------------------------------------------------------


class Severity(Enum):
    """An error refuses the upload; a warning has to be accepted."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """Something wrong with a rules object.

    :param code: stable, dotted, such as ``syntax`` or ``rule.never-matches``.
    :param text: what is wrong.
    :param help: how to mend it.
    :param example: a request that demonstrates it, as :func:`rules.example.describe` writes it, or empty.
    """

    severity: Severity
    code: str
    place: Place
    text: str
    help: str
    example: str = ""
