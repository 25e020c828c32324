"""Banned constructions and discouraged words, each with what to write instead.

To add a row, name the pattern, the replacement and an example that the pattern must find.
``docs/glossary.rst`` defines the terms that the replacements name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

#: Subjects that the relative pronoun for people may refer to.
PEOPLE: Final = (
    "administrator", "attacker", "author", "caller", "colleague", "contributor", "developer",
    "engineer", "grantee", "maintainer", "member", "operator", "owner", "people", "person",
    "reader", "reviewer", "stranger", "user", "writer",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A pattern, what to write instead, and an example of what the pattern finds."""

    pattern: re.Pattern[str]
    instead: str
    example: str


def _row(pattern: str, instead: str, example: str) -> Row:
    return Row(re.compile(pattern, re.IGNORECASE), instead, example)


_MACHINES: Final = (
    "answer|client|code|container|docker|file|filter|header|kernel|line|log|message|node|page|"
    "process|proxy|response|row|rule|rules|sandbox|sandboxd|server|storlet|swift|test|text|worker"
)

CONSTRUCTIONS: Final = (
    _row(
        r"\w*\W*\bwho\b",
        'name the subject; "who" only right after a person (caller, owner, user, operator, ...)',
        "Who holds a slot",
    ),
    _row(r"\bwhom?ever\b", "name the subject: the caller, the process that", "whoever has left"),
    _row(r"\bwhatever\b", "name the set: any value, every outcome", "whatever it made of it"),
    _row(r"\b(nobody|no one)\b", "name the subject: no process, no caller", "nobody waits"),
    _row(
        r"\b(some|any|every)(body|one)\b(?! of)",
        "name the subject: a caller, any process, all users",
        "somebody who does the same",
    ),
    _row(r"\b(of|to|for|with|by|from|in) whom\b", "name the subject", "callers of whom it asks"),
    _row(r"\bthat which\b", "name the thing", "that which was stored"),
    _row(r"\bwhat (it|they|he|she) (has|have|had)\b", "name the thing", "gives back what it has"),
    _row(r"\bso (many|much|few)\b", "give the number: up to `count`", "so many slots"),
    _row(r"^what (?!if\b)[^?]*$", "begin with the subject: a noun", "What is on it fails"),
    _row(r"\bas it were\b", "leave it out", "it is, as it were, full"),
    _row(r"\bin the place of\b", "instead of, or: in place of", "in the place of data"),
    _row(
        r"\b((the|an?|its|their|each|whose) begin|begin of)\b",
        "start, beginning",
        "at the begin of a line",
    ),
    _row(r"\bfor ever\b", "forever, or: without a time limit", "wait for ever"),
)

WORDS: Final = (
    _row(r"\b(ask|asks|asked|asking)\b", "request, query, call, check", "the proxy asks the rules"),
    _row(r"\bwants\b", "requires, needs, requests", "the option wants a number"),
    _row(r"\b(tell|tells|told|telling)\b", "report, return, show, notify", "the client is told"),
    _row(
        rf"\b({_MACHINES}|it|which) (says|said)\b",
        "state, report, name, contain, specify",
        "the log says why",
    ),
    _row(r"\b(hear|hears|heard)\b", "receive, notice", "whoever waits is heard of"),
    _row(r"\b(heed|heeds|heeded)\b", "apply, honour, observe", "limits are heeded"),
    _row(r"\b(hurry|hurries|hurried)\b", "start early, expedite", "hurry the move"),
    _row(r"\b(pour|pours|poured|pouring)\b", "copy, stream, splice", "poured into a pipe"),
    _row(r"\b(goes|go|going|went) on\b", "continue", "the others go on"),
    _row(rf"\b({_MACHINES}|it|request) goes\b", "is sent, is passed, ends", "the request goes to"),
    _row(
        r"\bclients? (that|who|which)? ?((has|have|had) (left|gone)|leaves?|is gone)\b",
        "disconnect: clients that disconnected",
        "clients that have left",
    ),
    _row(
        r"\b(hold|holds|held|free|frees|freed|give back|gives back|waits? for) "
        r"(a|an|its|the|their|one|all|no|\d+) ?places?\b",
        "slot",
        "holds a place",
    ),
    _row(r"\b(all|no|many|few|more|other|free|of|\d+) places\b", "slots", "a node of 64 places"),
    _row(r"\bbook-keeping\b", "bookkeeping; better: name the work", "wait for book-keeping"),
    _row(r"\b(a|the|each|one|no|given|\d+) spares?\b", "pre-warmed sandbox", "takes a spare"),
    _row(r"\b(is|are|was|were) (gone|let in)\b", "ended, removed; admitted", "the worker is gone"),
    _row(r"\bnewcomers?\b", "new tenant", "a newcomer finds room"),
    _row(r"\b(shorten|shortens|shortened)\b", "truncate", "raise, do not shorten"),
    _row(r"\bfalls? short\b", "misses the target", "a figure falls short"),
    _row(r"\b(mend|mends|mended)\b", "fix, repair", "an error that a person can mend"),
    _row(r"\bhowever (many|much|few|often|long|large)\b", "any number of", "however many ask"),
    _row(r"\blest\b", "so that ... not", "lest it hang"),
    _row(r"\banew\b", "again", "uploaded anew"),
    _row(r"\bdatagrams?\b", "message", "a datagram arrives"),
    _row(r"\bclient[-.]gone\b", "the error code as a literal: ``client.gone``", "code client-gone"),
    _row(r"\bby[- ]and[- ]by\b", "later", "by and by"),
)

ROWS: Final = (*CONSTRUCTIONS, *WORDS)
#: Finds whether any of the patterns matches: few sentences have a match.
ANY: Final = re.compile("|".join(f"(?:{row.pattern.pattern})" for row in ROWS), re.IGNORECASE)


def is_person(word: str) -> bool:
    """Return True if the relative pronoun for people may follow ``word``."""
    return word.lower().removesuffix("'").removesuffix("s") in PEOPLE or word.lower() in PEOPLE
