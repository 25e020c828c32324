"""``std:deidentify`` with Presidio: its kinds are found beside the others, without the network, and
a failure of it is an error.
"""

from __future__ import annotations

import functools
import io
import json
import logging
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import FOLDER, shared
from tests.library.test_deidentify import KEY, PRIVATE, STORLET, failure, output
from tests.library.test_deidentify_text import text_output

KINDS: Any = shared("presidio_kinds")
CHECKOUT = FOLDER.parents[1]
#: More words than the search for context sees.
FAR = " x" * 20 + " "
README = (FOLDER / "deidentify/README.rst").read_text()


@functools.cache
def recognizers() -> Any:
    """All of Presidio's; the import takes a second, which a worker without these tests saves."""
    return KINDS.recognizers()


def matcher() -> Any:
    """The module of Presidio that applies patterns."""
    recognizers()
    return shared("presidio_analyzer.pattern_recognizer")


@pytest.mark.parametrize(
    ("entity", "text", "expected"),
    [
        ("US_SSN", "SSN 078-05-1121 of Dana", "SSN [US_SSN] of Dana"),
        ("US_PASSPORT", "passport no. 912803456", "passport no. [US_PASSPORT]"),
        ("US_PASSPORT", "912803456 (passport)", "[US_PASSPORT] (passport)"),
        ("US_PASSPORT", "order 912803456", "order 912803456"),
        ("US_PASSPORT", "passport" + FAR + "912803456", "passport" + FAR + "912803456"),
        ("UK_NHS", "943 476 5919", "[UK_NHS]"),
        ("UK_NHS", "NHS 943 476 5918", "NHS 943 476 5918"),
        ("UK_NINO", "AB 12 34 56 C", "[UK_NINO]"),
        ("IT_FISCAL_CODE", "cf RSSMRA80A01H501U", "cf [IT_FISCAL_CODE]"),
        ("ES_NIF", "DNI 12345678Z", "DNI [ES_NIF]"),
        ("PL_PESEL", "PESEL 44051401359", "PESEL [PL_PESEL]"),
        ("IN_AADHAAR", "aadhaar 2345 6789 0124", "aadhaar [IN_AADHAAR]"),
        ("CREDIT_CARD", "4111-1111-1111-1111", "[CREDIT_CARD]"),
        ("CREDIT_CARD", "card 4111-1111-1111-1112", "card 4111-1111-1111-1112"),
        ("IBAN_CODE", "DE89 3704 0044 0532 0130 00", "[IBAN_CODE]"),
        ("CRYPTO", "to 1BoatSLRHtKNngkdXEeobR76b53LETtpyT", "to [CRYPTO]"),
        ("EMAIL_ADDRESS", "dana@example.co.uk", "[EMAIL_ADDRESS]"),
        ("EMAIL_ADDRESS", "dana@example.internal", "dana@example.internal"),
        ("PHONE_NUMBER", "call +49 30 901820", "call [PHONE_NUMBER]"),
        ("IP_ADDRESS", "from 192.0.2.17 at", "from [IP_ADDRESS] at"),
        ("MAC_ADDRESS", "00:1B:44:11:3A:B7", "[MAC_ADDRESS]"),
        ("UUID", "id 123e4567-e89b-12d3-a456-426614174000", "id [UUID]"),
    ],
)
def test_values_that_are_found(entity: str, text: str, expected: str) -> None:
    assert text_output(text, f"find:{entity}", presidio=entity) == expected


def test_a_country_stands_for_its_entities() -> None:
    text = "NHS 9434765919, NI number AB123456C, dana@example.com"
    found = text_output(text, presidio="uk")
    assert found == "NHS [UK_NHS], NI number [UK_NINO], [EMAIL]"
    assert text_output(text, presidio=" UK_NINO , UK_NHS, uk") == found


def test_a_lower_score_finds_more() -> None:
    text = "order 912803456"
    assert text_output(text, presidio="US_PASSPORT") == text
    more = {"presidio": "US_PASSPORT", "least-score": "0.05"}
    assert text_output(text, "find", **more) == "order [US_PASSPORT]"
    more = {"presidio": "US_PASSPORT", "least-score": "0.9"}
    assert text_output("passport 912803456", "find", **more) == "passport 912803456"


def test_tokens_and_columns() -> None:
    found = output(
        b"id,note\n7,passport 912803456\n", {"id": "keep", "note": "find-hmac"}, KEY,
        presidio="US_PASSPORT",
    )  # fmt: skip
    assert re.fullmatch(rb"id,note\n7,passport \[US_PASSPORT [0-9a-f]{32}\]\n", found)


#: Pieces of texts in which recognisers of many kinds find something.
PIECES = (
    "passport", "NHS", "card", " ", ", ", "\n", "912803456", "9434765919", "943 476 5918", "A1234567",
    "4111111111111111", "078-05-1120", "AB123456C", "RSSMRA80A01H501U", "12345678Z", "dana@example.com",
    "x@y", "\u00e9", "\u0308", "\ud800", "\u0661", "+49 30 901820", "192.0.2.1", "::1", "(", "-", ".",
)  # fmt: skip
SOME = ("CREDIT_CARD", "ES_NIF", "IT_FISCAL_CODE", "UK_NHS", "UK_NINO", "US_PASSPORT", "US_SSN")


@given(
    text=st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    names=st.lists(st.sampled_from(SOME), min_size=1, unique=True),
    least=st.sampled_from([0.05, 0.4, 0.6]),
)
def test_text_that_presidio_finds_is_removed(text: str, names: list[str], least: float) -> None:
    """The reference is each recogniser's own result; a context word may only add others."""
    line = json.dumps({"a": text}).encode()
    more = {"presidio": ",".join(names), "least-score": str(least)}
    found = output(line, {"a": f"find:{more['presidio']}"}, format="jsonl", **more)
    groups = {name: each for group in recognizers().values() for name, each in group.items()}
    results = [
        result
        for name in names
        for each in groups[name]
        for result in each.analyze(text, [name], None)
    ]
    hidden = {
        place for each in results if each.score >= least for place in range(each.start, each.end)
    }
    possible = {place for each in results for place in range(each.start, each.end)}
    labels = "|".join(names)
    left = re.sub(rf"\[(?:{labels})\]", "", json.loads(found)["a"])
    # The rest is a subsequence without what is hidden, and with all that no recogniser matches.
    most = [text[place] for place in range(len(text)) if place not in hidden]
    fewest = [text[place] for place in range(len(text)) if place not in possible]
    assert is_within(left, most)
    assert is_within(fewest, list(left))


def is_within(part: Any, whole: list[str]) -> bool:
    rest = iter(whole)
    return all(each in rest for each in part)


@pytest.mark.parametrize(
    ("columns", "more", "expected"),
    [
        ("find", {"presidio": "US_PASPORT"}, "'US_PASPORT' is unknown: did you mean US_PASSPORT?"),
        ("find", {"presidio": "ukk"}, "'ukk' is unknown: did you mean uk?"),
        ("find", {"presidio": "passport_us"}, "presidio: 'passport_us' is unknown: "),
        ("find", {"presidio": "q"}, "want entities of Presidio such as US_SSN, or of au, ca, de,"),
        ("find", {"presidio": ""}, "presidio: '' is unknown"),
        ("find", {"presidio": "US_SSN,"}, "presidio: '' is unknown"),
        ("find", {"presidio": "PERSON,X"}, "PERSON needs a trained model, which is not supported;"),
        ("find:email", {"presidio": "US_SSN"}, "presidio: no column is searched for 'US_SSN'"),
        ("find:US_SSN", {}, "the parameter presidio declares those of Presidio"),
        ("find:UK_NHS", {"presidio": "us"}, "find has no pattern 'UK_NHS'"),
    ],
)
def test_doubts_are_errors(columns: str, more: dict[str, str], expected: str) -> None:
    text = failure(PRIVATE.encode(), {"line": columns}, format="text", **more)
    assert expected in text
    assert PRIVATE not in text


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"ok\n%s\0\n", "line 2: 'line': has the character NUL"),
        (b"ok\n%s\xff\n", "line 2: is not UTF-8"),
        (b"ok\n%s" + b"x" * 65536, "65536"),
        (b"ok\n%s" + b"x" * (1 << 20), "line 2: has more than 1048576 bytes"),
    ],
)
def test_texts_that_are_refused(data: bytes, expected: str) -> None:
    text = failure(
        data.replace(b"%s", PRIVATE.encode()), {"line": "find"}, format="text", presidio="us"
    )
    assert expected in text
    assert PRIVATE not in text


def test_a_pattern_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presidio would leave its matches out, and continue."""
    assert matcher().REGEX_TIMEOUT_SECONDS == KINDS.MOST_SECONDS
    monkeypatch.setattr(matcher(), "REGEX_TIMEOUT_SECONDS", 0.1)
    hostile = f"ok\n{PRIVATE} " + "a." * 32_000
    text = failure(hostile.encode(), {"line": "find"}, format="text", presidio="IN_PAN")
    assert text.startswith("line 2: 'line': the search for IN_PAN failed: a pattern took more than")
    assert PRIVATE not in text


def test_a_failure_of_presidio_is_an_error_without_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: Any, text: str, *_: Any) -> None:
        raise KeyError(text)

    def warning(self: Any, text: str, *_: Any) -> list[Any]:
        logging.getLogger("presidio-analyzer").warning("Failed to validate %s", text)
        return []

    for function, expected in ((failing, "KeyError"), (warning, "Presidio gave a warning")):
        monkeypatch.setattr(matcher().PatternRecognizer, "analyze", function)
        text = failure(PRIVATE.encode(), {"line": "find"}, format="text", presidio="US_SSN")
        assert text == f"line 1: 'line': the search for US_SSN failed: {expected}"


SCRIPT = """
import sys

allowed = {"socket.__new__", "socket.bind"}


def audit(event, arguments):
    if event.startswith("socket.") and event not in allowed:
        print(event)


sys.addaudithook(audit)
from tests.library import test_deidentify_text as tests

# An import finds out whether the host has IPv6.
sys.modules["presidio_kinds"].library()
allowed.clear()
text = "dana@example.co.uk https://example.org 9434765919 +49 30 901820"
print(tests.text_output(text, presidio="generic,us,uk"))
"""


def test_no_connection_is_opened() -> None:
    """In a process of its own: the list of public suffixes is read once in each."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True, cwd=CHECKOUT
    )
    assert done.stdout == "[EMAIL] [URL] [PHONE_NUMBER] [PHONE]\n"


def test_spacy_is_not_needed() -> None:
    assert "spacy" not in sys.modules
    assert "numpy" not in sys.modules or "duckdb" in sys.modules


def test_an_image_without_the_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("presidio_analyzer.predefined_recognizers", "presidio_analyzer"):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(shared("packages").PackageError, match="the Python package presidio_a"):
            text_output("x", presidio="us")
    with pytest.raises(shared("packages").PackageError, match="package presidio_analyzer, which"):
        text_output("x", presidio="us")
    assert text_output("dana@example.com") == "[EMAIL]"


def test_the_readme_lists_the_entities() -> None:
    for country, entities in recognizers().items():
        (row,) = re.findall(rf"^``{country}`` +((?:.|\n +)+)", README, re.MULTILINE)
        assert re.findall("[A-Z][A-Z_]+[A-Z]", row) == list(entities)


def test_the_receipt_has_counts_of_each_entity() -> None:
    class File(io.BytesIO):
        def set_metadata(self, metadata: dict[str, str]) -> None: ...

    result, receipt = File(), File()
    given_values = {"columns": '{"line": "find:US_SSN,UK_NHS"}', "presidio": "US_SSN,UK_NHS"}
    params = STORLET.values({"format": "text", **given_values})
    source = File(b"SSN 078-05-1121, 078-05-1122\nnothing\n")
    STORLET.module.Deidentify(None)([source], [result, receipt], params)
    line = json.loads(receipt.getvalue())["columns"]["line"]
    assert line == {"action": "find", "changed": 1, "found": {"UK_NHS": 0, "US_SSN": 2}}
    assert b"078" not in receipt.getvalue()


def test_a_lack_of_memory_is_no_failure_of_presidio(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the error of a limit, and has no value."""

    def failing(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(matcher().PatternRecognizer, "analyze", failing)
    with pytest.raises(MemoryError):
        output(PRIVATE.encode(), {"line": "find"}, format="text", presidio="US_SSN")
