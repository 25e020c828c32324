"""Text to model: ``parse(text)`` returns a :class:`rules.model.RuleSet`, or all faults of the text.

The format, which ``docs/user/rules/reference.rst`` describes in detail::

    version: 1
    rules:
      - name: deidentify-for-researchers
        when: {method: GET, container: {prefix: patients-}, roles: [researcher]}
        mandatory: true
        run: deidentify-1.0.jar
      - name: night
        when: {time: {from: "22:00", to: "06:00"}, header: {x-purpose: export}}
        deny: no exports by night
      - name: rest
        allow: true

Parsing continues after a fault, so that all faults are reported at once.  Each fault has a line, a
column, a description and a correction.  A text with a fault yields no rule set: partially parsed
rules would be different rules.

Codes of faults: ``syntax``, ``syntax.unsupported``, ``size.bytes``, ``size.nesting``,
``size.values``, ``size.rules``, ``size.globs``, ``key.unknown``, ``key.duplicate``,
``key.missing``, ``key.misplaced``, ``value.type``, ``value.bad``, ``rule.duplicate-name``,
``rule.actions``; and ``more`` if there are too many to list.

:mod:`rules.text` parses the text into a tree, :mod:`rules.when` parses conditions,
:mod:`rules.actions` actions and :mod:`rules.values` single values; this module parses rules and
checks that their options are compatible.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from rules import actions, glob, text, values, when
from rules.evaluation import tests_of
from rules.faults import Faults, quoted
from rules.model import (
    Action,
    All,
    Allow,
    Condition,
    Deny,
    Explicit,
    Finding,
    Operator,
    Passes,
    Place,
    Rule,
    RuleSet,
    Run,
)
from rules.rewriting import cautious, with_all_reads, with_segments
from rules.text import Mapping, Node, Scalar, Sequence

VERSION: Final = "1"
MAX_RULES: Final = 1000
#: The maximum total :func:`rules.glob.cost` of all globs, because a request can be matched against
#: all of them.  The measured worst case, 1,000 globs such as ``*aabaa*`` and an adversarial header
#: of 8 KiB, takes 18 ms (one core of an AMD EPYC, Python 3.11).  With longer plain text, ``?`` and
#: ``[...]`` the same cost takes 4 to 13 ms.
MAX_GLOB_COST: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ACTIONS: Final = ("run", "deny", "allow")
_MODES: Final = ("enforce", "audit")
_KEYS: Final = (
    "name", "when", "mandatory", "mode", "explicit", *_ACTIONS, "and-reverse-on-read", "pass",
)  # fmt: skip


def parse(text_: bytes | str) -> tuple[RuleSet | None, tuple[Finding, ...]]:
    """The rules and no finding, or ``None`` and all faults in the order of the text."""
    faults = Faults()
    root = text.read(text_, faults)
    rules = _document(root, faults) if root is not None else ()
    if root is None and not faults:
        faults.add(
            "key.missing", Place(1, 1), "the text is empty", "write version: 1 and rules: []"
        )
    if not faults:
        _limit_globs(rules, faults)
    if faults:
        return None, faults.findings()
    return RuleSet.of(rules, version_of(text_)), ()


def version_of(text_: bytes | str) -> str:
    """The ruleset version: SHA-256 of the text, hexadecimal."""
    return hashlib.sha256(text_.encode() if isinstance(text_, str) else text_).hexdigest()


def _document(root: Node, faults: Faults) -> tuple[Rule, ...]:
    entries = values.mapping(root, "the rules object", faults, "version: 1 and rules: [...]")
    known = values.fields(entries, "the rules object", ("version", "rules"), faults)
    if isinstance(root, Mapping):
        for key, example in (("version", "version: 1"), ("rules", "rules: [...]")):
            if key not in root:
                faults.add("key.missing", root.place, f"{key} is missing", f"add {example}")
    version = known.get("version")
    if version is not None and getattr(version, "text", None) != VERSION:
        shown = quoted(version.text) if isinstance(version, Scalar) else values.describe(version)
        faults.add(
            "value.bad", version.place, f"version {shown} is unknown", f"write version: {VERSION}"
        )
    return _rules(known["rules"], faults) if "rules" in known else ()


def _rules(node: Node, faults: Faults) -> tuple[Rule, ...]:
    if not isinstance(node, Sequence):
        message = f"rules must be a list, not {values.describe(node)}"
        help_ = "begin each rule with '- name: ...'; write [] for no rules"
        faults.add("value.type", node.place, message, help_)
        return ()
    if len(node.items) > MAX_RULES:
        message = f"there are more than {MAX_RULES:,} rules"
        help_ = "use globs, prefixes and lists instead of one rule for each name"
        faults.add("size.rules", node.items[MAX_RULES].place, message, help_)
        return ()
    rules = tuple(_rule(item, faults) for item in node.items)
    _refuse_equal_names(rules, faults)
    return rules


def _refuse_equal_names(rules: tuple[Rule, ...], faults: Faults) -> None:
    first: dict[str, Rule] = {}
    for rule in rules:
        if rule.name and first.setdefault(rule.name, rule) is not rule:
            message = f"the rule in line {first[rule.name].place.line} is also named {rule.name}"
            faults.add("rule.duplicate-name", rule.place, message, "give each rule a unique name")


def _rule(node: Node, faults: Faults) -> Rule:
    entries = values.mapping(
        node, "a rule", faults, "name: ..., when: {...} and one of run, deny, allow"
    )
    known = values.fields(entries, "a rule", _KEYS, faults)
    name = _name(known["name"], faults) if "name" in known else ""
    if isinstance(node, Mapping) and "name" not in node:
        help_ = "add name: the purpose of the rule; clients see it"
        faults.add("key.missing", node.place, "the rule has no name", help_)
    condition = when.read(known["when"], faults) if "when" in known else All()
    mandatory = known.get("mandatory")
    is_mandatory = mandatory is not None and bool(values.boolean(mandatory, "mandatory", faults))
    action = _action(entries, known, condition, faults)
    _refuse_misplaced(known, action, faults, is_mandatory=is_mandatory)
    return Rule(
        name=name,
        condition=_fail_closed(condition, action, is_mandatory=is_mandatory),
        action=action,
        is_mandatory=is_mandatory,
        explicit=_explicit(known.get("explicit"), faults),
        passes=_passes(known.get("pass"), faults),
        is_audited=_is_audited(known.get("mode"), faults),
        place=node.place,
    )


def _fail_closed(condition: Condition, action: Action, *, is_mandatory: bool) -> Condition:
    """The condition, rewritten for the kind of rule: see :mod:`rules.rewriting`."""
    if is_mandatory:
        return with_segments(with_all_reads(condition))
    return condition if isinstance(action, Deny) else cautious(condition)


def _name(node: Node, faults: Faults) -> str:
    name = values.string(node, "the rule's name", faults)
    if name is not None and not _NAME.fullmatch(name):
        help_ = "write 1 to 64 letters, digits, '.', '_' and '-'"
        faults.add("value.bad", node.place, f"{quoted(name)} is not a valid rule name", help_)
    return name or ""


def _action(
    entries: Mapping, known: dict[str, Node], condition: Condition, faults: Faults
) -> Action:
    named = [name for name in _ACTIONS if name in known]
    if len(named) != 1 and entries.entries:
        message = f"the rule has {' and '.join(named) if named else 'no action'}"
        help_ = "write exactly one of run, deny and allow"
        faults.add("rule.actions", entries.place, message, help_)
    read = [actions.read(name, known[name], faults) for name in named]
    action = read[0] if read else Allow()
    node = known.get("and-reverse-on-read")
    if node is None:
        return action
    reverse = actions.reverse(node, faults)
    if not isinstance(action, Run) or not actions.can_be_put(condition):
        message = "and-reverse-on-read requires a run on PUT"
        faults.add("key.misplaced", node.place, message, "remove it, or write run and method: PUT")
        return action
    return Run(action.steps, reverse)


def _refuse_misplaced(
    known: dict[str, Node], action: Action, faults: Faults, *, is_mandatory: bool
) -> None:
    """Refuse options without effect: they show a misunderstanding of the author."""
    if is_mandatory and isinstance(action, Allow) and "allow" in known:
        help_ = "remove it, or write run or deny"
        faults.add("key.misplaced", known["mandatory"].place, "an allow cannot be mandatory", help_)
    if "explicit" in known and not (is_mandatory and isinstance(action, Run)):
        help_ = "remove it, or write run and mandatory: true"
        place = known["explicit"].place
        faults.add("key.misplaced", place, "explicit requires a mandatory run", help_)
    if "pass" in known and not isinstance(action, Run):
        faults.add("key.misplaced", known["pass"].place, "pass requires a run", "remove it")


def _explicit(node: Node | None, faults: Faults) -> Explicit:
    names = [explicit.value for explicit in Explicit]
    name = values.choice(node, "explicit", names, faults) if node is not None else None
    return Explicit(name) if name in names else Explicit.REFUSE


def _is_audited(node: Node | None, faults: Faults) -> bool:
    return node is not None and values.choice(node, "mode", _MODES, faults) == "audit"


def _passes(node: Node | None, faults: Faults) -> Passes | None:
    return None if node is None else actions.passes(node, faults)


def _limit_globs(rules: tuple[Rule, ...], faults: Faults) -> None:
    cost = 0
    for rule in rules:
        tests = tests_of(rule.condition)
        if isinstance(rule.action, Run) and rule.action.reverse:
            tests += tests_of(rule.action.reverse.condition)
        globs = [str(test.operand) for test in tests if test.operator is Operator.GLOB]
        cost += sum(map(glob.cost, globs))
        if cost > MAX_GLOB_COST:
            message = (
                f"up to here, the total cost of globs exceeds {MAX_GLOB_COST:,}; only text between"
                f" two * counts: {glob.PLAIN_IN_ONE} plain characters cost 1, a [...] costs"
                f" {glob.SET_COST}"
            )
            help_ = "use plain text instead of ? and [...], and prefix or suffix instead of globs"
            faults.add("size.globs", rule.place, message, help_)
            return
