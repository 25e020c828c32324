"""A new condition needs one row in ``rules/conditions.py`` and one field in ``rules/facts.py``.

Each test adds a made-up condition to a copy of the library, and uses it in a rule: parsed, decided,
explained, checked, written as an example and listed in the reference.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import rules

_LIBRARY = Path(rules.__file__).parent

#: Uses the condition; the arguments are its name, a ``when``, a matching and another request.
_SCRIPT = '''
import sys
from rules import engine, example, reference
from rules.check import consistency
from rules.parse import parse

name, when, matching, other = sys.argv[1:]
text = f"""
version: 1
rules:
  - {{name: first, when: {when}, deny: made up}}
  - {{name: second, when: {{all: [{when}, {{method: GET}}]}}, deny: never reached}}
"""
parsed, faults = parse(text)
assert parsed, faults
compiled = engine.compile(parsed)
for words, decider in ((matching, "first"), (other, None)):
    facts = example.read_words(words.split())
    rule = compiled.decide(facts).rule
    assert (rule.name if rule else None) == decider, words
    assert example.read_words(example.describe(facts).split()) == facts
explained = compiled.explain(example.read_words(matching.split())).lines()
assert name in explained[0], explained
(finding,) = consistency.check(parsed, {})
assert finding.code == "rule.never-matches", finding
assert f"{name}=" in finding.example, finding
assert f"``{name}``" in reference.page()
'''


@dataclass(frozen=True)
class _MadeUp:
    """A made-up condition: a row, a field and its position, a ``when`` and two requests."""

    row: str
    field: str
    after: str
    when: str
    matching: str
    other: str


_MADE_UP = {
    "user-agent": _MadeUp(
        row='Fact("user-agent", Kind.STRING, "user_agent", "the client program")',
        field="user_agent: str | None = None",
        after="    minute_of_week: int | None = None\n",
        when="{user-agent: {prefix: curl}}",
        matching="user-agent=curl/8",
        other="user-agent=wget",
    ),
    "teams": _MadeUp(
        row='Fact("teams", Kind.SET, "caller.teams", "the teams of the caller")',
        field="teams: frozenset[str] = frozenset()",
        after="    is_signed: bool = False\n",
        when="{teams: [red, blue]}",
        matching="teams=green teams=blue",
        other="teams=green",
    ),
    "age": _MadeUp(
        row='Fact("age", Kind.NUMBER, "stored.age_seconds", "seconds since the last change")',
        field="age_seconds: int | None = None",
        after="    size_bytes: int | None = None\n",
        when="{age: {at-least: 60}}",
        matching="container=c object=o age=61",
        other="container=c object=o age=59",
    ),
}


def _insert(path: Path, after: str, line: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(after) == 1
    path.write_text(text.replace(after, f"{after}    {line}\n"), encoding="utf-8")


@pytest.mark.parametrize("name", _MADE_UP)
def test_a_condition_is_one_row_and_one_field(name: str, tmp_path: Path) -> None:
    made_up = _MADE_UP[name]
    copy = tmp_path / "rules"
    shutil.copytree(_LIBRARY, copy, ignore=shutil.ignore_patterns("__pycache__"))
    _insert(copy / "conditions.py", "_ROWS: Final = (\n", f"{made_up.row},")
    _insert(copy / "facts.py", made_up.after, made_up.field)
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, name, made_up.when, made_up.matching, made_up.other],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
