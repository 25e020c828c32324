"""``std:deidentify`` in free text: values of known kinds and of declared ones are replaced, in a
time that is linear in the length of the text.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import re
import time
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library import plain_kinds, published_values
from tests.library.test_deidentify import (
    KEY,
    LINES,
    PRIVATE,
    STORLET,
    csv_of,
    failure,
    output,
    rows_of,
)

#: Bytes of a hostile value, and the seconds of the processor for it: a quadratic search needs more.
HOSTILE_BYTES, MOST_SECONDS = 32 * 1024, 1.5
PIECES = (
    "dana@example.com", "o'neil+x@mail.example.co.uk", "@", "a.b", "x" * 70, "é",
    "https://example.com/a?b=c", "www.example.org", "ftp://", "://",
    "192.0.2.17", "255.255.255.255", "256.1.1.1", "1.2.3",
    "2001:db8::17", "fe80::1", "::1", "::ffff:192.0.2.1", "1:2:3:4:5:6:7:8", "12:30:45", "::", ":",
    "DE89370400440532013000", "gb82 west 1234 5698 7654 32", "DE89 3704 0044 0532 0130 01",
    "4111 1111 1111 1111", "378282246310005", "4111111111111112", "5555-5555-5555-4444",
    "078-05-1120", "000-12-3456", "+49 (0)30 901820", "0049 30 901820", "030/901820-12",
    "(212) 555-0123", "1-212-555-0123", "212.555.0123", "+1",
    "2026-11-26", "26.11.2026", "11/26/26", "26 November 2026", "Nov. 26th, 2026", "31.13.2026",
    '"dana levi"@example.com', '"', "\\", "dana@mu\u0308nchen.example", "@x.", "\u0308", "\u2019",
    "06.12.34.56.78", "01-23-45-67-89", "01.03.26", "-05.03.26", "1(212).555/0123", "+49 - (0) 30",
    "Tel", "fax", "IBAN", "EUR", "peer", "::ffff:1", "2026-Nov-26", "26. 11. 2026", "Nov-26-2026",
    "Nov 26", " 19:34:12 UTC", " 2026", "\t", "\u2007", "\u202f",
    "1", "0", "9", " ", " ", "-", ".", ",", "(", ")", "/", "+", "\u00a0", "\u2013", "A", "z", "_",
)  # fmt: skip
WORDS = st.lists(st.sampled_from(PIECES), max_size=7).map(lambda each: "".join(each)[:60])
CHARACTERS = st.text("01249 -./:+()@aAfz\u00a0", max_size=40)
FREE = WORDS | CHARACTERS
#: The slow search has no bound of the time.


def text_output(text: str, action: str = "find", block: int = 1 << 18, **more: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return output(data, {"line": action}, block=block, format="text", **more).decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to dana@example.com.", "write to [EMAIL]."),
        ("<o'neil+x@mail.example.co.uk>", "<[EMAIL]>"),
        ("mail " + "x" * 2000 + "@example.com", "mail [EMAIL]"),
        ('mail "' + "x" * 200 + '"@example.com', "mail [EMAIL]"),
        ("dana@localhost", "dana@localhost"),
        ("(see https://example.com/a(b)?c=dana@example.com).", "(see [URL])."),
        ("host 192.0.2.17:80, 300.1.1.1", "host [IPV4]:80, 300.1.1.1"),
        ("[2001:db8::17]:443 at 12:30:45", "[[IPV6]]:443 at 12:30:45"),
        ("std::vector and ::", "std::vector and ::"),
        ("pay DE89 3704 0044 0532 0130 00 NOW", "pay [IBAN] NOW"),
        ("pay de89370400440532013000", "pay [IBAN]"),
        ("card 4111-1111-1111-1111 12", "card [CARD] 12"),
        ("number 4111111111111112", "number 4111111111111112"),
        ("SSN 078-05-1120, 000-12-3456", "SSN [SSN], 000-12-3456"),
        ("call +49 (0)30 901820 or 030/901820-12", "call [PHONE] or [PHONE]"),
        ("call (212) 555-0123, 1-212-555-0123", "call [PHONE], [PHONE]"),
        ("on 26.11.2026 10:30, 2026-11-26T10:30", "on [DATE] 10:30, [DATE]T10:30"),
        ("born 26th of November 2026, Nov. 26, 2026", "born [DATE], [DATE]"),
        ("[26/Nov/2026:10:30:00 +0200]", "[[DATE]:10:30:00 +0200]"),
        ("version 1.2.3, 31.13.2026", "version 1.2.3, 31.13.2026"),
        ("Dana Levi, 12 Main Street, Haifa", "Dana Levi, 12 Main Street, Haifa"),
        ("call 06.12.34.56.78 or 01-23-45-67-89", "call [PHONE] or [PHONE]"),
        ("from 01.03.26 to 05.03.26 10:30", "from [DATE] to [DATE] 10:30"),
        ("Tel+49 30 901820, Tel030 901820", "Tel[PHONE], Tel[PHONE]"),
        ("IBANDE89370400440532013000", "IBAN[IBAN]"),
        ("DE89370400440532013000EUR", "[IBAN]EUR"),
        ("pay DE89 3704 0044 0532 0130 00EUR", "pay [IBAN]EUR"),
        ("peer::ffff:1, std::add", "peer[IPV6], std::add"),
        ('"dana levi"@example.com wrote "hi"', '[EMAIL] wrote "hi"'),
        ("\u201cdana@example.com\u201d\u2014yes", "\u201c[EMAIL]\u201d\u2014yes"),
        ("Thu Nov 26 19:34:12 2026", "Thu [DATE]"),
    ],
)
def test_values_that_are_found(text: str, expected: str) -> None:
    assert text_output(text) == expected
    assert plain_kinds.replaced(text) == expected


def of_kinds(values: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(kind, value) for kind, each in values.items() for value in each]


def replaced_by_both(kind: str, text: str) -> str:
    """The output of the storlet; the slow search has the same."""
    found = text_output(text, f"find:{kind}")
    assert plain_kinds.replaced(text, [kind]) == found
    return found


@pytest.mark.parametrize(("kind", "value"), of_kinds(published_values.FOUND))
def test_published_values_are_found_as_a_whole(kind: str, value: str) -> None:
    assert replaced_by_both(kind, f"see {value}, and") == f"see [{kind.upper()}], and"


@pytest.mark.parametrize(("kind", "value"), of_kinds(published_values.NOT_FOUND))
def test_published_values_that_are_none_stay(kind: str, value: str) -> None:
    text = f"see {value}, and"
    assert replaced_by_both(kind, text) == text


@given(text=FREE, kinds=st.lists(st.sampled_from(sorted(plain_kinds.KINDS)), min_size=1))
def test_a_slow_search_finds_the_same_values(text: str, kinds: list[str]) -> None:
    some = [name for name in plain_kinds.KINDS if name in kinds]
    line = json.dumps({"a": text}).encode()
    found = output(line, {"a": f"find:{','.join(kinds)}"}, format="jsonl")
    assert json.loads(found) == {"a": plain_kinds.replaced(text, some)}


@given(
    lines=st.lists(st.tuples(FREE, st.sampled_from(["\n", "\r\n", "\n\n"])), max_size=2),
    last=FREE,
    block=st.integers(1, 60),
)
def test_a_text_is_searched_in_whole_lines(
    lines: list[tuple[str, str]], last: str, block: int
) -> None:
    text = "".join(line + end for line, end in lines) + last
    assert text_output(text, block=block) == plain_kinds.replaced(text)


@given(rows=st.lists(st.tuples(FREE, FREE), max_size=3), block=st.integers(1, 60))
def test_columns_of_csv(rows: list[tuple[str, str]], block: int) -> None:
    table = [["a", "b"], *map(list, rows)]
    found = output(csv_of(table), {"a": "find", "b": "keep"}, block=block)
    expected = [[plain_kinds.replaced(a), b] for a, b in rows]
    assert rows_of(found) == [["a", "b"], *expected]


DECLARED = ("T-[0-9]{1,3}", "[ab]{2,4}c?", r"\b(?:ab|ba){1,2}\b", "(?i)a(b|c){0,2}d", "a.{1,3}?c")


@given(expression=st.sampled_from(DECLARED), text=st.text("abcdABT-019 ", max_size=30))
def test_declared_expressions_match_as_in_python(expression: str, text: str) -> None:
    hidden = set()
    for start in range(len(text)):
        if match := re.compile(expression).match(text, start):
            hidden.update(range(start, match.end()))
    left = "".join(each for place, each in enumerate(text) if place not in hidden)
    found = text_output(text, "find:own", patterns=json.dumps({"own": expression}))
    assert found.replace("[OWN]", "") == left


def test_an_expression_does_not_match_the_end_of_a_line() -> None:
    patterns = json.dumps({"own": "x[^a]{1,2}"})
    assert text_output("x\r\nx\nxb\n", patterns=patterns) == "x\r\nx\n[OWN]\n"


def test_tokens_are_those_of_hmac() -> None:
    token = hmac.new(KEY, b"dana@example.com", hashlib.sha256).hexdigest()[:32]
    found = text_output("to dana@example.com, dana@example.com", "find-hmac")
    assert found == f"to [EMAIL {token}], [EMAIL {token}]"
    column = output(b"a\ndana@example.com\n", {"a": "hmac"})
    assert column.split()[1].decode() == token


def test_numbers_of_json_are_searched_and_stay_numbers() -> None:
    data = b'{"a": 4111111111111111}\n{"a": 1.70}\n{"a": null}\n'
    found = output(data, {"a": "find"}, format="jsonl")
    assert found == b'{"a": "[CARD]"}\n{"a": 1.70}\n{"a": null}\n'


#: UTF-16 without a byte order mark, which is valid UTF-8.
UTF_16 = f"{PRIVATE}, dana@example.com".encode("utf-16-le").decode()


@pytest.mark.parametrize(
    ("data", "columns", "more", "expected"),
    [
        ("x", {"line": "find:email,name"}, {}, "'line': find has no pattern 'name': want email, "),
        ("x", {"line": "find:"}, {}, "find has no pattern ''"),
        ("x", {"line": "mask"}, {}, "a text has the one column line"),
        ("x", {"line": "find", "a": "drop"}, {}, "a text has the one column line"),
        ("x", {"note": "find"}, {}, "a text has the one column line"),
        (f"ok\n{PRIVATE}\udcff", {"line": "find"}, {}, "line 2: is not UTF-8"),
        (f"ok\n{PRIVATE}" + "x" * (1 << 20), {"line": "find"}, {}, "line 2: has more than"),
        (f'{{"a": ["{PRIVATE}"]}}', {"a": "find"}, {"format": "jsonl"}, "for texts and numbers"),
        (
            "x",
            {"line": "find:email"},
            {"patterns": '{"own": "x"}'},
            "no column is searched for 'own'",
        ),
        (UTF_16, {"line": "find"}, {}, "line 1: 'line': has the character NUL"),
        (f"a\nx\n{PRIVATE}\0\n", {"a": "find"}, {"format": "csv"}, "NUL"),
        (f'{{"a": "{PRIVATE}\\u0000"}}', {"a": "find"}, {"format": "jsonl"}, "the character NUL"),
    ],
)
def test_a_doubt_is_an_error_without_a_value(
    data: str, columns: Any, more: dict[str, str], expected: str
) -> None:
    given_text = data.encode("utf-8", "surrogateescape")
    text = failure(given_text, columns, **{"format": "text", **more})
    assert expected in text
    assert PRIVATE not in text


def test_tokens_need_a_key() -> None:
    expected = "find-hmac needs the parameter key"
    assert expected in failure(b"x", {"line": "find-hmac"}, None, format="text")
    short = failure(b"x", {"line": "find-hmac"}, KEY[:31], format="text")
    assert "has 31 bytes: want 32" in short


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ("{", "patterns: is not JSON"),
        ("{}", "patterns: want an object"),
        ('{"a": "x", "a": "y"}', "patterns: a pattern is named twice"),
        ({f"p{number}": "x" for number in range(21)}, "21 patterns: want at most 20"),
        ({"Name": "x"}, "'Name': want a name of up to 32"),
        ({"email": "x"}, "'email': want a name"),
        ({"a": 7}, "'a': want an expression of 1 to 200 characters"),
        ({"a": ""}, "want an expression of 1 to 200"),
        ({"a": "x" * 201}, "want an expression of 1 to 200"),
        ({"a": "("}, "is no regular expression"),
        ({"a": "x{1,99999999999}"}, "is no regular expression"),
        ({"a": "(x+)+y"}, "a repetition without a bound"),
        ({"a": "x*"}, "a repetition without a bound"),
        ({"a": "x{0,3}"}, "may match 0 to 3 characters"),
        ({"a": "(x{0,150}){2}y"}, "more than 2000 steps"),
        ({"a": "x{150}y{60}"}, "may match 210 to 210 characters"),
        ({"a": "(?:x{0,20}){0,20}y"}, "more than 2000 steps"),
        ({"a": "(?:x?){60}y"}, "more than 2000 steps"),
        ({"a": "((((){200}){200}){200}){200}x"}, "more than 2000 steps"),
        ({"a": "(?:(?:a{0}){200}){200}x"}, "more than 2000 steps"),
        ({"a": "(?:(?:){200}x){150}"}, "more than 2000 steps"),
        ({"a": "(?:" + "(" * 16 + "x" + ")" * 17 + "{150}"}, "more than 2000 steps"),
        ({"a": r"(x)\1"}, "a construct that is not supported"),
        ({"a": "(?<=x)y"}, "a construct that is not supported"),
        ({"a": "^x"}, "a construct that is not supported"),
        ({"a": "(?i:x)"}, "a construct that is not supported"),
        ({"a": "(?s)x"}, "has a flag"),
        ({f"p{number}": "[ab]{0,60}c" for number in range(20)}, "for all patterns together"),
    ],
)
def test_patterns_that_are_refused(patterns: Any, expected: str) -> None:
    text = patterns if isinstance(patterns, str) else json.dumps(patterns)
    assert expected in failure(b"x", {"line": "find"}, format="text", patterns=text)


HOSTILE = (
    ("", "a"), ("", "a."), ("", "a-"), ("", "@"), ("", "a@"), ("", "@a.a"), ("x@", "a."), ("x@", "a-"),
    ("", "a@a.aa"), ("", "1"), ("", "1 "), ("", "1-"), ("", "12 "), ("", "1234 "), ("", "1."),
    ("", "0"), ("", "01 "), ("", "00 1"), ("", "+1"), ("+1", "0"), ("", "("), ("", "(0"), ("", "1/1/"),
    ("", "1:"), ("", ":"), ("", "1::"), ("", "::1 "), ("", "1:1:1:1:1:1:1:1 "), ("", "::1.1.1."),
    ("", "AA11 "), ("", "AA11A"), ("", "AA11 A A "), ("", "1 may "), ("", "may 1 "), ("", "1.1.1.1"),
    ("", "://"), ("ab://", "."), ("", "ab://"), ("", "http://a"), ("", "www."), ("", "www.a"),
    ("", "\u00e9"), ("://", "a"), ("@", "\u00a0"), ("", '"@a.aa'), ("", '\\"@a.aa'), ("", '"'),
    ("x@", "\u0308"), ("x@a", "\u0308."), ("", "0/"), ("", "01/"), ("", "01-"), ("", "01    "),
    ("", "tel0"), ("", "iban"), ("", "DE89"), ("", "::1:"), ("", "1. "), ("", "may 1 1:11 aa aa "),
    ("", "2000 may "),
)  # fmt: skip


@pytest.mark.parametrize(("start", "unit"), HOSTILE)
def test_a_hostile_value_needs_linear_time(start: str, unit: str) -> None:
    text = start + unit * (HOSTILE_BYTES // len(unit))
    begin = time.process_time()
    text_output(text)
    assert time.process_time() - begin < MOST_SECONDS


def test_a_declared_expression_needs_linear_time() -> None:
    patterns = json.dumps({"own": "[ab]{0,8}[ab]{0,8}[ab]{0,8}c"})
    text = "ab" * (HOSTILE_BYTES // 2)
    begin = time.process_time()
    assert text_output(text, patterns=patterns) == text
    assert time.process_time() - begin < MOST_SECONDS


def test_a_line_of_a_mebibyte_is_searched() -> None:
    value = "dana@example.com"
    text = "word " * ((LINES.MOST_RECORD_BYTES - len(value)) // 5) + value
    assert text_output(text) == text.replace(value, "[EMAIL]")


def test_the_receipt_has_counts_of_each_kind_and_no_value() -> None:
    class File(io.BytesIO):
        def set_metadata(self, metadata: dict[str, str]) -> None: ...

    result, receipt = File(), File()
    contract = {"columns": '{"line": "find:email,date,own"}', "patterns": '{"own": "T-[0-9]{3}"}'}
    params = STORLET.values({"format": "text", **contract})
    source = File(b"dana@example.com, T-123\nnothing\n\ndana@example.com\n")
    STORLET.module.Deidentify(None)([source], [result, receipt], params)
    assert result.getvalue() == b"[EMAIL], [OWN]\nnothing\n\n[EMAIL]\n"
    counts = {"email": 2, "date": 0, "own": 1}
    line = {"action": "find", "changed": 2, "found": counts}
    assert json.loads(receipt.getvalue()) == {"records": 4, "columns": {"line": line}}
