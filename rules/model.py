"""The model of a rules object: frozen values, each with its position in the text.

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
    """A position in the text of the rules object; both numbers count from 1."""

    line: int = 0
    column: int = 0


# --- conditions -----------------------------------------------------------------------------------


class Operator(Enum):
    """The comparison of a fact's value with an operand.

    :data:`rules.conditions.OPERATORS` lists the operators of each kind of fact.
    """

    EXACT = "exact"  # str: equal
    GLOB = "glob"  # str: a pattern of rules.glob
    PREFIX = "prefix"  # str
    SUFFIX = "suffix"  # str
    ONE_OF = "one-of"  # frozenset[str]: equal to one of these
    HAS = "has"  # frozenset[str], lower case: a set of values (roles) contains one of these
    AT_LEAST = "at-least"  # int
    AT_MOST = "at-most"  # int
    # networks (ipaddress), or (first, last) minutes of the week: inclusive, sorted and disjoint
    WITHIN = "within"
    IS = "is"  # bool: equal, for facts that are true or false
    PRESENT = "present"  # bool: the value is present (true) or missing (false)


@dataclass(frozen=True)
class Test:
    """A comparison of one fact with one operand.

    :param fact: a name in :data:`rules.conditions.TABLE`, such as ``container`` or ``metadata``.
    :param key: the key of a fact that is a map (``metadata``, ``header``, ...); in lower case,
        except for ``query``.
    """

    __test__ = False  # otherwise pytest collects it

    fact: str
    operator: Operator
    operand: object
    key: str | None = None
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True)
class All:
    """Every part holds; true without parts."""

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


# --- actions --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Template:
    """A parameter's value with names in braces, such as ``{object}``: see :mod:`rules.template`.

    :param parts: alternating literals and names, starting with a literal:
        ``("thumb-", "object", "")``.
    """

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One storlet of a pipeline.

    :param on: ``object``, ``proxy`` or ``None`` for the operator's default.
    :param limits: as in ``X-Storlet-Limit-*``: lower-case names without the prefix, values as
        written (``("memory", "64M")``).
    """

    storlet: str
    parameters: tuple[tuple[str, Template], ...] = ()
    on: str | None = None
    limits: tuple[tuple[str, str], ...] = ()
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True)
class Reverse:
    """The steps that undo a rule's work on read, for requests that satisfy ``condition``."""

    steps: tuple[Step, ...]
    condition: Condition = All()


@dataclass(frozen=True)
class Run:
    """Run a pipeline: the output of each storlet is the input of the next one."""

    steps: tuple[Step, ...]
    reverse: Reverse | None = None


@dataclass(frozen=True)
class Deny:
    """Refuse the request."""

    message: str


@dataclass(frozen=True)
class Allow:
    """Evaluate no further rule; the request proceeds as without rules."""


Action: TypeAlias = Run | Deny | Allow


class Explicit(Enum):
    """The treatment of a client's own storlet request where a mandatory rule runs a storlet."""

    REFUSE = "refuse"
    AFTER = "after"


#: Headers of the source that a result never has: they describe the source's bytes and would be
#: wrong for the result, they are per-response or per-connection, or they reveal the storage layout.
NEVER_PASS: Final = frozenset(
    (
        "accept-ranges", "content-length", "content-md5", "content-range", "etag",
        "x-manifest-etag", "x-object-manifest", "x-static-large-object",
        "connection", "date", "keep-alive", "proxy-authenticate", "set-cookie", "trailer",
        "transfer-encoding", "upgrade", "www-authenticate", "x-openstack-request-id", "x-trans-id",
    )
)  # fmt: skip
#: Prefixes of such headers.  User metadata is included: it has a list of its own.
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
    """The metadata and headers of the source that the result keeps.

    Names are in lower case; a trailing ``*`` matches any suffix.  Use :meth:`allows_metadata` and
    :meth:`allows_header` instead of comparing names: a wildcard also matches headers that must not
    be kept, such as the source's etag, which allows guesses of its bytes.

    :param metadata: user metadata, without ``X-Object-Meta-``.
    :param headers: other headers, such as ``last-modified``.
    """

    metadata: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()

    def allows_metadata(self, name: str) -> bool:
        """Whether the result keeps an item of user metadata; ``name`` is case-insensitive."""
        return _is_named(_header_name(name), self.metadata)

    def allows_header(self, name: str) -> bool:
        """Whether the result keeps another header; ``name`` is case-insensitive."""
        return not never_passes(name) and _is_named(_header_name(name), self.headers)


def never_passes(name: str) -> bool:
    """Whether a result never has the source's header ``name``, with any rule."""
    plain = _header_name(name)
    return plain in NEVER_PASS or plain.startswith(NEVER_PASS_PREFIXES)


def _header_name(name: str) -> str:
    """Normalized: Swift and WSGI do not distinguish ``_`` from ``-`` in header names."""
    return name.strip().lower().replace("_", "-")


def _is_named(name: str, patterns: tuple[str, ...]) -> bool:
    return bool(name) and any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )


@dataclass(frozen=True)
class Rule:
    """One rule.

    :param name: unique in its rule set; clients see it.
    :param passes: ``None`` means nothing for a mandatory rule, and the default of a requested
        storlet for an ordinary rule.
    :param is_audited: evaluated and counted, but not enforced.
    """

    name: str
    condition: Condition
    action: Action
    is_mandatory: bool = False
    explicit: Explicit = Explicit.REFUSE
    passes: Passes | None = None
    is_audited: bool = False
    place: Place = field(default=Place(), compare=False)


@dataclass(frozen=True)
class RuleSet:
    """The rules of a rules object, in order: the first rule that matches decides.

    Audited rules are not in ``rules``, so that no enforcing code can mistake them for others.

    :param version: the ruleset version: SHA-256 of the text, hexadecimal.
    :param with_audited: all rules, with the audited ones at their positions; empty if no rule is
        audited.
    """

    rules: tuple[Rule, ...]
    version: str = ""
    with_audited: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, rules: tuple[Rule, ...], version: str = "") -> RuleSet:
        """The rule set of a text with ``rules``."""
        enforced = tuple(rule for rule in rules if not rule.is_audited)
        return cls(enforced, version, rules if len(enforced) < len(rules) else ())

    @property
    def written(self) -> tuple[Rule, ...]:
        """All rules of the text."""
        return self.with_audited or self.rules

    @property
    def as_enforced(self) -> RuleSet:
        """The rules as they would be if the audited ones were enforced."""
        return RuleSet(self.written, self.version)


# --- findings -------------------------------------------------------------------------------------


class Severity(Enum):
    """An error rejects the upload; a warning must be accepted; a note is only shown."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """A problem of a rules object.

    :param code: stable, dotted, such as ``syntax`` or ``rule.never-matches``.
    :param text: the problem.
    :param help: the correction.
    :param example: a request that demonstrates the problem, as :func:`rules.example.describe`
        writes it, or empty.
    """

    severity: Severity
    code: str
    place: Place
    text: str
    help: str
    example: str = ""
