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

#: For sets of characters: spaces, also those that do not break, and dashes.
SPACE, DASH = r" \t\u00a0\u2000-\u200a\u202f", r"\u2010-\u2013-"
#: Between groups of digits.
GAP = rf"[{SPACE}{DASH}]"
PHONE_GAP = rf"[{SPACE}./(){DASH}]{{0,4}}"
DATE_GAP = rf"[./{DASH}]"
LONG_DATE_GAP = rf"(?:\.[{SPACE}]|{DATE_GAP})"

DAY, MONTH, YEAR = "(?:3[01]|[12][0-9]|0?[1-9])", "(?:1[0-2]|0?[1-9])", "(?:1[6-9]|2[01])[0-9]{2}"
ORDINAL = "(?:st|[nr]d|th)?"
MONTH_NAME = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
#: The time of day and its zone, which ctime and date(1) write before the year.
TIME = (
    rf"(?:[{SPACE},]{{1,2}}[0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}})?"
    rf"(?:[{SPACE}][a-z]{{2,5}}){{0,2}})?"
)
DAY_AND_MONTH = f"(?:{DAY}{DATE_GAP}{MONTH}|{MONTH}{DATE_GAP}{DAY})"
LONG_DATE = (
    f"(?:{YEAR}{LONG_DATE_GAP}{MONTH}{LONG_DATE_GAP}{DAY}"
    f"|(?:{DAY}{LONG_DATE_GAP}{MONTH}|{MONTH}{LONG_DATE_GAP}{DAY}){LONG_DATE_GAP}{YEAR})(?![0-9])"
)
#: The first pairs of a phone number such as 06.12.34.56.78 are no date.
WHOLE_DATE = f"(?:{LONG_DATE}|{DAY_AND_MONTH}{DATE_GAP}[0-9]{{2}}(?!{DATE_GAP}?[0-9]))"
#: The look-ahead at the start rules out most places of a text at once, here and below.
DATE = re.compile(
    rf"(?=[0-9])(?<![0-9])(?:{LONG_DATE}|{DAY_AND_MONTH}({DATE_GAP})[0-9]{{2}}(?![0-9])(?!\1[0-9])"
    rf"|{DAY}{ORDINAL}[{SPACE}./{DASH}]{{0,2}}(?:of[{SPACE}])?{MONTH_NAME}"
    rf"[{SPACE},./{DASH}]{{0,2}}(?:{YEAR}|'?[0-9]{{2}})(?![0-9])"
    rf"|{YEAR}[{SPACE}./{DASH}]{{1,2}}{MONTH_NAME}[{SPACE}./{DASH}]{{1,2}}{DAY}{ORDINAL}(?![0-9]))"
    rf"|(?=[adfjmnos])(?<![0-9a-z]){MONTH_NAME}[{SPACE}./{DASH}]{{1,2}}{DAY}{ORDINAL}{TIME}"
    rf"[{SPACE},./{DASH}]{{1,2}}{YEAR}(?![0-9])",
    re.IGNORECASE,
)
ABROAD = rf"{GAP}?\(?[1-9](?:{PHONE_GAP}[0-9]){{6,14}}"
NATIONAL = rf"(?:\(0\){GAP}?|\(?(?!{WHOLE_DATE})0)[1-9](?:{PHONE_GAP}[0-9]){{7,9}}"
AMERICAN_GAP = rf"[{SPACE}./{DASH}]"
AMERICAN = (
    rf"(?:1{AMERICAN_GAP}|1(?=\())?(?:\([2-9][0-9]{{2}}\){AMERICAN_GAP}{{0,2}}"
    rf"|[2-9][0-9]{{2}}{AMERICAN_GAP})[2-9][0-9]{{2}}{AMERICAN_GAP}[0-9]{{4}}"
)
#: The code of a country may follow a letter; other numbers may follow a word for a phone.
PHONE = re.compile(
    rf"(?=[0-9+(])(?:(?<![0-9])\+{ABROAD}"
    r"|(?:(?<![0-9A-Za-z])|(?i:(?<=tel)|(?<=fax)|(?<=fon)|(?<=phone)))"
    rf"(?:00{ABROAD}|{NATIONAL}|{AMERICAN}))(?![0-9])"
)
SSN = re.compile(
    rf"(?<![0-9])(?!000|666)[0-9]{{3}}({GAP})(?!00)[0-9]{{2}}\1(?!0000)[0-9]{{4}}(?![0-9])"
)
OCTET = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})"
IPV4 = re.compile(rf"(?<![0-9]){OCTET}(?:\.{OCTET}){{3}}(?![0-9])")

#: Candidates; the checks decide where they end.  After a letter, two colons may be those of a
#: programming language.
IPV6 = re.compile(
    r"(?:(?<![0-9A-Za-z])|(?=::[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]))(?:[0-9A-Fa-f]{0,4}:){2,8}"
    rf"(?:{OCTET}(?:\.{OCTET}){{3}}|[0-9A-Fa-f]{{0,4}})"
)
IPV6_GROUP = re.compile("[0-9A-Fa-f]+|::")
IBAN = re.compile(
    r"(?=[A-Za-z]{2}[0-9]{2})(?:(?<![0-9A-Za-z])|(?i:(?<=iban)))"
    rf"[A-Za-z]{{2}}[0-9]{{2}}(?:{GAP}?[0-9A-Za-z]){{11,30}}"
)
#: A currency may follow the last digit.
IBAN_END = re.compile("(?<=[0-9A-Za-z])(?![0-9A-Za-z])|(?<=[0-9])(?=[A-Za-z])")
CARD = re.compile(rf"(?<![0-9])[0-9](?:{GAP}?[0-9]){{12,18}}")
CARD_END = re.compile("(?<=[0-9])(?![0-9])")
LEAST_IBAN, LEAST_CARD = 15, 13
GAPS = re.compile(GAP)
DIGIT = re.compile("[0-9]")
ALPHANUMERIC = re.compile("[0-9A-Za-z]")
#: The sum of the digits of twice a digit.
DOUBLED = str.maketrans("0123456789", "0246813579")

#: Not in a domain: white space, ASCII other than letters, digits, "-" and "_", and the punctuation
#: and symbols of Unicode.  Combining marks are in domains, and no class of an expression has them.
NOT_DOMAIN = (
    r"\s\x00-,./:-@\[-\^`{-\x7f\u00ab\u00bb\u2010-\u2bff\u3001\u3002\u3008-\u301f\uff01-\uff0f"
)
EMAIL_DOMAIN = re.compile(
    rf"@(?:\w[^{NOT_DOMAIN}]{{0,62}}\.){{1,20}}[^\W\d_][^{NOT_DOMAIN}]{{0,61}}[^{NOT_DOMAIN}_-]"
)
#: Bound of a local part in quotes.
MOST_QUOTED = 256
NOT_LOCAL = frozenset('"<>()[],;:@\\')

#: The punctuation before white space is that of the sentence.
URL = re.compile(
    r"(?:[a-z][a-z0-9+.-]{1,15}://|www\.(?=\w))[^\s<>\"]*[^\s<>\".,;:!?)\]}']", re.IGNORECASE
)
URL_HINT = re.compile(r"://|www\.", re.IGNORECASE)


@dataclass(frozen=True)
class Kind:
    """A kind of values: its name, and the function that finds them.

    ``parameter`` is the one that declares it, if it is not always there.
    """

    name: str
    spans: Finds
    parameter: str = ""


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
    # A quoted local part may have another address in it, which the search finds first.
    yield from sorted(addresses(text))


def addresses(text: str) -> Spans:
    """The search begins at the character @, as text without it has no bound for a local part."""
    for match in EMAIL_DOMAIN.finditer(text):
        at = match.start()
        is_quoted = text.endswith('"', 0, at)
        start = (start_of_quoted if is_quoted else start_of_local)(text, at)
        if start < at:
            yield start, match.end()


def start_of_local(text: str, at: int) -> int:
    """A local part may be longer than mail allows.  None has another @, so time is linear."""
    start = at
    while start > 0 and not (text[start - 1].isspace() or text[start - 1] in NOT_LOCAL):
        start -= 1
    while start < at and not (text[start].isalnum() or text[start] == "_"):
        start += 1
    return start


def start_of_quoted(text: str, at: int) -> int:
    """The opening quote before the closing one at the end; ``at`` if there is none."""
    least = max(at - MOST_QUOTED, 0)
    start = text.rfind('"', least, at - 1)
    while start > 0 and text[start - 1] == "\\":
        start = text.rfind('"', least, start)
    return at if start < 0 else start


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
        yield from grouped(text, IBAN, IBAN_END, LEAST_IBAN, is_iban)


def cards(text: str) -> Spans:
    if DIGIT.search(text):
        yield from grouped(text, CARD, CARD_END, LEAST_CARD, is_card)


def grouped(
    text: str,
    pattern: re.Pattern[str],
    last: re.Pattern[str],
    least: int,
    is_right: Callable[[str], bool],
) -> Spans:
    """The longest run from each start that has a right check digit; ``last`` finds its ends."""
    for match in every_match(pattern, text):
        candidate, start = match[0], match.start()
        # One more character decides whether the candidate may end where it does.
        window = text[start : match.end() + 1]
        places = [each.start() for each in last.finditer(window)]
        for end in reversed([place for place in places if place <= len(candidate)]):
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
