"""Text to model: ``parse(text)`` gives a :class:`rules.model.RuleSet`, or everything that is wrong with the text.

The format, which ``docs/user/rules.rst`` tells at length::

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

Nobody mends a file one fault at a time, so reading goes on after a fault, and each fault has its line and column, says what is
wrong, and how to mend it.  With a fault there is no rule set: rules that are partly read would be other rules.

Codes of faults: ``syntax``, ``syntax.unsupported``, ``size.bytes``, ``size.nesting``, ``size.values``, ``size.rules``,
``size.globs``, ``key.unknown``, ``key.duplicate``, ``key.missing``, ``key.misplaced``, ``value.type``, ``value.bad``,
``rule.duplicate-name``, ``rule.actions``; and ``more`` where there are more than can be listed.

The parts: :mod:`rules.text` makes a tree of the text, :mod:`rules.when` reads conditions, :mod:`rules.actions` what is done,
:mod:`rules.values` single values; this file reads rules and what their options have to do with one another.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from rules import actions, glob, text, values, when
from rules.conditions import cautious, tests_of, with_all_reads
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
from rules.text import Mapping, Node, Sequence

VERSION: Final = "1"
MAX_RULES: Final = 1000
#: The :func:`rules.glob.cost` of all globs together, as every request may have to try all of them.  The worst that was measured,
#: 1,000 globs such as ``*aabaa*`` and a header of 8 KiB that is chosen for them, takes 18 ms (one core of an AMD EPYC, Python 3.11);
#: with longer plain text, ``?`` and ``[...]`` the same cost is 4 to 13 ms.
MAX_GLOB_COST: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ACTIONS: Final = ("run", "deny", "allow")
_KEYS: Final = ("name", "when", "mandatory", "explicit", *_ACTIONS, "and-reverse-on-read", "pass")


def parse(text_: bytes | str) -> tuple[RuleSet | None, tuple[Finding, ...]]:
    """The rules and no finding, or ``None`` and every fault in the order of the text."""
    faults = Faults()
    root = text.read(text_, faults)
    rules = _document(root, faults) if root is not None else ()
    if root is None and not faults:
        faults.add(
            "key.missing", Place(1, 1), "there is nothing here", "write version: 1 and rules: []"
        )
    if not faults:
        _limit_globs(rules, faults)
    if faults:
        return None, faults.findings()
    return RuleSet(rules, version_of(text_)), ()


def version_of(text_: bytes | str) -> str:
    """What tells two texts apart: their SHA-256, hexadecimal."""
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
        faults.add(
            "value.bad", version.place, "this version is not known", f"write version: {VERSION}"
        )
    return _rules(known["rules"], faults) if "rules" in known else ()


def _rules(node: Node, faults: Faults) -> tuple[Rule, ...]:
    if not isinstance(node, Sequence):
        said = f"rules wants a list, and this is {values.describe(node)}"
        faults.add(
            "value.type",
            node.place,
            said,
            "begin each rule with '- name: ...'; write [] for no rules",
        )
        return ()
    if len(node.items) > MAX_RULES:
        help_ = "use globs, prefixes and lists in place of a rule for each name"
        faults.add(
            "size.rules",
            node.items[MAX_RULES].place,
            f"there are more than {MAX_RULES:,} rules",
            help_,
        )
        return ()
    rules = tuple(_rule(item, faults) for item in node.items)
    _refuse_equal_names(rules, faults)
    return rules


def _refuse_equal_names(rules: tuple[Rule, ...], faults: Faults) -> None:
    first: dict[str, Rule] = {}
    for rule in rules:
        if rule.name and first.setdefault(rule.name, rule) is not rule:
            said = f"the rule of line {first[rule.name].place.line} is called {rule.name} as well"
            faults.add("rule.duplicate-name", rule.place, said, "give each rule a name of its own")


def _rule(node: Node, faults: Faults) -> Rule:
    entries = values.mapping(
        node, "a rule", faults, "name: ..., when: {...} and one of run, deny, allow"
    )
    known = values.fields(entries, "a rule", _KEYS, faults)
    name = _name(known["name"], faults) if "name" in known else ""
    if isinstance(node, Mapping) and "name" not in node:
        faults.add(
            "key.missing",
            node.place,
            "the rule has no name",
            "add name: what it is for; clients will see it",
        )
    condition = when.read(known["when"], faults) if "when" in known else All()
    is_mandatory = (
        bool(values.truth(known["mandatory"], "mandatory", faults))
        if "mandatory" in known
        else False
    )
    action = _action(entries, known, condition, faults)
    _refuse_misplaced(known, action, faults, is_mandatory=is_mandatory)
    return Rule(
        name=name,
        condition=_meant(condition, action, is_mandatory=is_mandatory),
        action=action,
        is_mandatory=is_mandatory,
        explicit=_explicit(known.get("explicit"), faults),
        passes=_passes(known.get("pass"), faults),
        place=node.place,
    )


def _meant(condition: Condition, action: Action, *, is_mandatory: bool) -> Condition:
    """The condition as the rule's kind makes it."""
    if is_mandatory:
        return with_all_reads(condition)
    return condition if isinstance(action, Deny) else cautious(condition)


def _name(node: Node, faults: Faults) -> str:
    name = values.string(node, "the rule's name", faults)
    if name is not None and not _NAME.fullmatch(name):
        help_ = "write 1 to 64 of letters, digits, '.', '_' and '-'"
        faults.add("value.bad", node.place, f"{quoted(name)} cannot be a rule's name", help_)
    return name or ""


def _action(
    entries: Mapping, known: dict[str, Node], condition: Condition, faults: Faults
) -> Action:
    named = [name for name in _ACTIONS if name in known]
    if len(named) != 1 and entries.entries:
        said = f"has {' and '.join(named)}" if named else "does nothing"
        faults.add(
            "rule.actions",
            entries.place,
            f"the rule {said}",
            "write exactly one of run, deny and allow",
        )
    read = [actions.read(name, known[name], faults) for name in named]
    action = read[0] if read else Allow()
    node = known.get("and-reverse-on-read")
    if node is None:
        return action
    reverse = actions.reverse(node, faults)
    if not isinstance(action, Run) or not actions.can_be_put(condition):
        said = "and-reverse-on-read belongs to a run on PUT"
        faults.add("key.misplaced", node.place, said, "leave it away, or write run and method: PUT")
        return action
    return Run(action.steps, reverse)


def _refuse_misplaced(
    known: dict[str, Node], action: Action, faults: Faults, *, is_mandatory: bool
) -> None:
    """Options that would do nothing: whoever wrote them means something that does not happen."""
    if is_mandatory and isinstance(action, Allow) and "allow" in known:
        help_ = "leave it away, or write run or deny"
        faults.add("key.misplaced", known["mandatory"].place, "an allow cannot be mandatory", help_)
    if "explicit" in known and not (is_mandatory and isinstance(action, Run)):
        help_ = "leave it away, or make it a run with mandatory: true"
        faults.add(
            "key.misplaced", known["explicit"].place, "explicit belongs to a mandatory run", help_
        )
    if "pass" in known and not isinstance(action, Run):
        faults.add("key.misplaced", known["pass"].place, "pass belongs to a run", "leave it away")


def _explicit(node: Node | None, faults: Faults) -> Explicit:
    names = [explicit.value for explicit in Explicit]
    name = values.choice(node, "explicit", names, faults) if node is not None else None
    return Explicit(name) if name in names else Explicit.REFUSE


def _passes(node: Node | None, faults: Faults) -> Passes | None:
    return None if node is None else actions.passes(node, faults)


def _limit_globs(rules: tuple[Rule, ...], faults: Faults) -> None:
    cost = 0
    for rule in rules:
        tests = tests_of(rule.condition)
        if isinstance(rule.action, Run) and rule.action.reverse:
            tests += tests_of(rule.action.reverse.condition)
        cost += sum(
            glob.cost(str(test.operand)) for test in tests if test.operator is Operator.GLOB
        )
        if cost > MAX_GLOB_COST:
            said = (
                f"up to here, what globs have between two * is longer than {MAX_GLOB_COST:,}, where {glob.PLAIN_IN_ONE} characters"
                f" of plain text count as one, and a [...] as {glob.SET_COST}"
            )
            help_ = "use plain text in place of ? and [...], and prefix or suffix in place of globs"
            faults.add("size.globs", rule.place, said, help_)
            return
