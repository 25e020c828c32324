"""The kinds of values that are searched in free text, such as e-mail addresses and dates.

A kind has a function that gives the places of its values in a text, in ascending order of their
starts; places may overlap.  Its time is linear in the length of the text: each repetition in an
expression is bounded, and a candidate is checked a bounded number of times.  The exception is the
rest of a URL: it is read in one pass, and only the punctuation at its end is given back.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

#: Start and end of a value.
Spans = Iterator[tuple[int, int]]
Finds = Callable[[str], Spans]

#: Between groups of digits: a space or a dash, also those that do not break.
GAP = r"[ \u00a0\u2010-\u2013-]"
PHONE_GAP = r"[ \u00a0./()\u2010-\u2013-]"
DATE_GAP = r"[./\u2010-\u2013-]"

DAY, MONTH, YEAR = "(?:3[01]|[12][0-9]|0?[1-9])", "(?:1[0-2]|0?[1-9])", "(?:1[6-9]|2[01])[0-9]{2}"
MONTH_NAME = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
DATE_IN_DIGITS = (
    f"(?:{YEAR}{DATE_GAP}{MONTH}{DATE_GAP}{DAY}"
    f"|(?:{DAY}{DATE_GAP}{MONTH}|{MONTH}{DATE_GAP}{DAY}){DATE_GAP}(?:{YEAR}|[0-9]{{2}}))"
    "(?![0-9])"
)
DATE = re.compile(
    rf"(?<![0-9])(?:{DATE_IN_DIGITS}"
    rf"|{DAY}(?:st|[nr]d|th)?[ ./-]{{0,2}}(?:of )?{MONTH_NAME}[ ,./-]{{0,2}}(?:{YEAR}|'?[0-9]{{2}})"
    rf"(?![0-9])"
    rf"|(?<![a-z]){MONTH_NAME}[ .]{{1,2}}{DAY}(?:st|[nr]d|th)?[ ,]{{1,2}}{YEAR}(?![0-9]))",
    re.IGNORECASE,
)
#: With the code of a country; with a leading 0 that begins no date; of North America.
PHONE = re.compile(
    rf"(?<![0-9A-Za-z+])(?:(?:\+|00){GAP}?\(?[1-9](?:{PHONE_GAP}{{0,3}}[0-9]){{6,14}}"
    rf"|\(?(?!{DATE_IN_DIGITS})0[1-9](?:{PHONE_GAP}{{0,3}}[0-9]){{7,9}}"
    rf"|(?:1(?:{GAP}|\.))?(?:\([2-9][0-9]{{2}}\){GAP}{{0,2}}|[2-9][0-9]{{2}}(?:{GAP}|\.))"
    rf"[2-9][0-9]{{2}}(?:{GAP}|\.)[0-9]{{4}})(?![0-9])"
)
SSN = re.compile(
    rf"(?<![0-9])(?!000|666)[0-9]{{3}}({GAP})(?!00)[0-9]{{2}}\1(?!0000)[0-9]{{4}}(?![0-9])"
)
OCTET = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})"
IPV4 = re.compile(rf"(?<![0-9]){OCTET}(?:\.{OCTET}){{3}}(?![0-9])")

#: Candidates; the checks decide where they end.
IPV6 = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{0,4}:){2,8}"
    rf"(?:{OCTET}(?:\.{OCTET}){{3}}|[0-9A-Fa-f]{{0,4}})"
)
IPV6_GROUP = re.compile("[0-9A-Fa-f]+|::")
IBAN = re.compile(rf"(?<![0-9A-Za-z])[A-Za-z]{{2}}[0-9]{{2}}(?:{GAP}?[0-9A-Za-z]){{11,30}}")
CARD = re.compile(rf"(?<![0-9])[0-9](?:{GAP}?[0-9]){{12,18}}")
LEAST_IBAN, LEAST_CARD = 15, 13
GAPS = re.compile(GAP)
DIGIT = re.compile("[0-9]")
ALPHANUMERIC = re.compile("[0-9A-Za-z]")
#: The sum of the digits of twice a digit.
DOUBLED = str.maketrans("0123456789", "0246813579")

EMAIL_DOMAIN = re.compile(r"@(?:\w[\w-]{0,62}\.){1,20}[^\W\d_][\w-]{0,61}[^\W_]")
MOST_LOCAL = 64
NOT_LOCAL = frozenset('"<>()[],;:@\\')

#: The punctuation before white space is that of the sentence.
URL = re.compile(
    r"(?:[a-z][a-z0-9+.-]{1,15}://|www\.(?=\w))[^\s<>\"]*[^\s<>\".,;:!?)\]}']", re.IGNORECASE
)
URL_HINT = re.compile(r"://|www\.", re.IGNORECASE)


@dataclass(frozen=True)
class Kind:
    """A kind of values: its name, and the function that finds them."""

    name: str
    spans: Finds


def every_match(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The match at each start, also within the match before it."""
    match = pattern.search(text)
    while match:
        yield match
        match = pattern.search(text, match.start() + 1)


def by_pattern(pattern: re.Pattern[str], hint: re.Pattern[str] | None = None) -> Finds:
    """The function for a kind that its expression decides; a text without the hint has none."""

    def spans(text: str) -> Spans:
        if hint is None or hint.search(text):
            for match in every_match(pattern, text):
                yield match.span()

    return spans


def emails(text: str) -> Spans:
    """The search begins at the character @, as text without it has no bound for a local part."""
    for match in EMAIL_DOMAIN.finditer(text):
        at = match.start()
        start, least = at, max(at - MOST_LOCAL, 0)
        while start > least and not (text[start - 1].isspace() or text[start - 1] in NOT_LOCAL):
            start -= 1
        while start < at and not (text[start].isalnum() or text[start] == "_"):
            start += 1
        if start < at:
            yield start, match.end()


def urls(text: str) -> Spans:
    """A search from each start would read the rest of a long URL again and again."""
    if URL_HINT.search(text):
        for match in URL.finditer(text):
            yield match.span()


def ipv6_addresses(text: str) -> Spans:
    if text.count(":") < 2:
        return
    for match in every_match(IPV6, text):
        candidate, start = match[0], match.start()
        ends = [group.end() for group in IPV6_GROUP.finditer(candidate)]
        for end in reversed(ends):
            is_whole = not ALPHANUMERIC.match(text, start + end)
            if is_whole and is_ipv6(candidate[:end]):
                yield start, start + end
                break


def is_ipv6(text: str) -> bool:
    # Most candidates are times, and are not worth a parser.
    if "::" not in text and text.count(":") not in (6, 7):
        return False
    # This is the address of no host, and an operator of some languages.
    if text == "::" or ":::" in text:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def ibans(text: str) -> Spans:
    if DIGIT.search(text):
        yield from grouped(text, IBAN, ALPHANUMERIC, LEAST_IBAN, is_iban)


def cards(text: str) -> Spans:
    if DIGIT.search(text):
        yield from grouped(text, CARD, DIGIT, LEAST_CARD, is_card)


def grouped(
    text: str,
    pattern: re.Pattern[str],
    member: re.Pattern[str],
    least: int,
    is_right: Callable[[str], bool],
) -> Spans:
    """The longest run of whole groups from each start that has a right check digit."""
    for match in every_match(pattern, text):
        candidate, start = match[0], match.start()
        ends = [gap.start() for gap in GAPS.finditer(candidate)]
        if not member.match(text, match.end()):
            ends.append(len(candidate))
        for end in reversed(ends):
            compact = GAPS.sub("", candidate[:end])
            if len(compact) < least:
                break
            if is_right(compact):
                yield start, start + end
                break


def is_iban(compact: str) -> bool:
    """Whether the check digits are those of ISO 13616."""
    moved = compact[4:] + compact[:4]
    return int("".join(str(int(character, 36)) for character in moved)) % 97 == 1


def is_card(compact: str) -> bool:
    """Whether the check digit is that of ISO/IEC 7812."""
    doubled = compact[-2::-2].translate(DOUBLED)
    return (sum(map(int, compact[::-2])) + sum(map(int, doubled))) % 10 == 0


#: The order decides between matches of one length and start.
KINDS = (
    Kind("email", emails),
    Kind("url", urls),
    Kind("ipv4", by_pattern(IPV4, DIGIT)),
    Kind("ipv6", ipv6_addresses),
    Kind("iban", ibans),
    Kind("card", cards),
    Kind("ssn", by_pattern(SSN, DIGIT)),
    Kind("phone", by_pattern(PHONE, DIGIT)),
    Kind("date", by_pattern(DATE, DIGIT)),
)
