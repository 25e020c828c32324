"""The values of ``std:deidentify`` in free text, found slowly: each part of a text is tried.

The parts of a text are compared with plain expressions, without a bound of the time; addresses and
check digits are verified in other ways than in the storlet.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping

GAP = "[ \u00a0\u2010-\u2013-]"
NUMBERED = re.compile(r"([0-9]{1,4})[./\u2010-\u2013-]([0-9]{1,2})[./\u2010-\u2013-]([0-9]{1,4})")
EMAIL = re.compile(
    r"\w[^\s\"<>()\[\],;:@\\]{0,63}@(?:\w[\w-]{0,62}\.){1,20}[^\W\d_][\w-]{0,61}[^\W_]"
)
URL = re.compile(r"([a-z][a-z0-9+.-]{1,15}://|www\.(?=\w))[^\s<>\"]+", re.IGNORECASE)
SSN = re.compile(rf"([0-9]{{3}})({GAP})([0-9]{{2}})\2([0-9]{{4}})")
IBAN = re.compile(rf"[A-Za-z]{{2}}[0-9]{{2}}({GAP}?[0-9A-Za-z]){{11,30}}")
CARD = re.compile(rf"[0-9]({GAP}?[0-9]){{12,18}}")
ABROAD = re.compile(rf"(\+|00){GAP}?\(?[1-9]([ \u00a0./()\u2010-\u2013-]{{0,3}}[0-9]){{6,14}}")
NATIONAL = re.compile(r"\(?0[1-9]([ \u00a0./()\u2010-\u2013-]{0,3}[0-9]){7,9}")
AMERICAN = re.compile(
    rf"(1({GAP}|\.))?(\([2-9][0-9]{{2}}\){GAP}{{0,2}}|[2-9][0-9]{{2}}({GAP}|\.))"
    rf"[2-9][0-9]{{2}}({GAP}|\.)[0-9]{{4}}"
)
MONTHS = (
    "january jan february feb march mar april apr may june jun july jul august aug september sept"
    " sep october oct november nov december dec"
)
NAME_OF_MONTH = f"({'|'.join(MONTHS.split())})"
DAY_FIRST = re.compile(
    rf"([0-9]{{1,2}})(st|[nr]d|th)?[ ./-]{{0,2}}(of )?{NAME_OF_MONTH}[ ,./-]{{0,2}}'?([0-9]{{2,4}})",
    re.IGNORECASE,
)
MONTH_FIRST = re.compile(
    rf"{NAME_OF_MONTH}[ .]{{1,2}}([0-9]{{1,2}})(st|[nr]d|th)?[ ,]{{1,2}}([0-9]{{4}})",
    re.IGNORECASE,
)


def is_email(text: str, start: int, end: int) -> bool:
    return EMAIL.fullmatch(text, start, end) is not None


def is_url(text: str, start: int, end: int) -> bool:
    return text[end - 1] not in ".,;:!?)]}'" and URL.fullmatch(text, start, end) is not None


def is_ipv4(text: str, start: int, end: int) -> bool:
    numbers = text[start:end].split(".")
    is_right = len(numbers) == 4 and all(
        re.fullmatch("[0-9]{1,3}", each) and int(each) <= 255 for each in numbers
    )
    return is_right and is_apart(text, start, end, "[0-9]", "[0-9]")


def is_ipv6(text: str, start: int, end: int) -> bool:
    part = text[start:end]
    if part == "::" or not is_apart(text, start, end, "[0-9A-Za-z]", "[0-9A-Za-z]"):
        return False
    try:
        return re.fullmatch("[0-9A-Fa-f:.]+", part) is not None and bool(
            ipaddress.IPv6Address(part)
        )
    except ValueError:
        return False


def is_iban(text: str, start: int, end: int) -> bool:
    if not IBAN.fullmatch(text, start, end):
        return False
    compact = re.sub(GAP, "", text[start:end]).upper()
    rest = 0
    for character in compact[4:] + compact[:4]:
        for digit in str(ord(character) - 55 if character.isalpha() else character):
            rest = (10 * rest + int(digit)) % 97
    return rest == 1 and is_apart(text, start, end, "[0-9A-Za-z]", "[0-9A-Za-z]")


def is_card(text: str, start: int, end: int) -> bool:
    if not CARD.fullmatch(text, start, end):
        return False
    total = 0
    for place, digit in enumerate(reversed(re.sub(GAP, "", text[start:end]))):
        total += sum(map(int, str(int(digit) * (1 + place % 2))))
    return total % 10 == 0 and is_apart(text, start, end, "[0-9]", "[0-9]")


def is_ssn(text: str, start: int, end: int) -> bool:
    match = SSN.fullmatch(text, start, end)
    return (
        match is not None
        and match[1] not in {"000", "666"}
        and match[3] != "00"
        and match[4] != "0000"
        and is_apart(text, start, end, "[0-9]", "[0-9]")
    )


def is_phone(text: str, start: int, end: int) -> bool:
    if not is_apart(text, start, end, "[0-9A-Za-z+]", "[0-9]"):
        return False
    if NATIONAL.fullmatch(text, start, end):
        zero = text.index("0", start)
        return not any(is_date_in_digits(text, zero, zero + size) for size in range(6, 11))
    return any(each.fullmatch(text, start, end) for each in (ABROAD, AMERICAN))


def is_date(text: str, start: int, end: int) -> bool:
    if not is_apart(text, start, end, "[0-9]", "[0-9]"):
        return False
    if match := DAY_FIRST.fullmatch(text, start, end):
        is_whole = is_year(match[5]) and "'" not in match[0]
        return is_day(match[1]) and (len(match[5]) == 2 or is_whole)
    if match := MONTH_FIRST.fullmatch(text, start, end):
        before = text[max(start - 1, 0) : start]
        is_word = not re.match("[a-z]", before, re.IGNORECASE)
        return is_word and is_day(match[2]) and is_year(match[4])
    return is_date_in_digits(text, start, end)


def is_date_in_digits(text: str, start: int, end: int) -> bool:
    match = NUMBERED.fullmatch(text, start, end)
    if match is None or not is_apart(text, end, end, "", "[0-9]"):
        return False
    first, middle, last = match.groups()
    if is_year(first):
        return is_month(middle) and is_day(last)
    is_right = (is_day(first) and is_month(middle)) or (is_month(first) and is_day(middle))
    return is_right and (len(last) == 2 or is_year(last))


def is_year(text: str) -> bool:
    return len(text) == 4 and 1600 <= int(text) < 2200


def is_month(text: str) -> bool:
    return len(text) <= 2 and 1 <= int(text) <= 12


def is_day(text: str) -> bool:
    return len(text) <= 2 and 1 <= int(text) <= 31


def is_apart(text: str, start: int, end: int, before: str, after: str) -> bool:
    """Whether no such character is beside the part."""
    return not (
        (before and start and re.match(before, text[start - 1]))
        or (after and end < len(text) and re.match(after, text[end]))
    )


#: The first characters of values, and whether a part of a text is one; in the storlet's order.
KINDS: Mapping[str, tuple[str, Callable[[str, int, int], bool]]] = {
    "email": (r"\w", is_email),
    "url": (r"(?i)[a-z]", is_url),
    "ipv4": ("[0-9]", is_ipv4),
    "ipv6": ("[0-9A-Fa-f:]", is_ipv6),
    "iban": ("[A-Za-z]{2}[0-9]{2}", is_iban),
    "card": ("[0-9]", is_card),
    "ssn": ("[0-9]", is_ssn),
    "phone": ("[0-9+(]", is_phone),
    "date": ("(?i)[0-9]|[a-z]{3}", is_date),
}


def replaced(text: str, kinds: Iterable[str] = KINDS) -> str:
    """The text with a label for each run of values that overlap."""
    values = values_in(text, kinds)
    hidden = [False] * (len(text) + 1)
    joined = [False] * (len(text) + 1)
    for start, end, _, _ in values:
        hidden[start:end] = [True] * (end - start)
        joined[start + 1 : end] = [True] * (end - start - 1)
    pieces, place = [], 0
    while place < len(text):
        if not hidden[place]:
            pieces.append(text[place])
            place += 1
            continue
        end = place + 1
        while joined[end]:
            end += 1
        inside = [each for each in values if place <= each[0] < end]
        longest = min(inside, key=lambda each: (each[0] - each[1], each[0], each[2]))
        pieces.append(f"[{longest[3].upper()}]")
        place = end
    return "".join(pieces)


def values_in(text: str, kinds: Iterable[str]) -> list[tuple[int, int, int, str]]:
    """Start, end, number of the kind and kind of the longest value at each start."""
    values = []
    for order, name in enumerate(kinds):
        first, is_value = KINDS[name]
        for start in range(len(text)):
            if not re.match(first, text[start : start + 4]):
                continue
            end = longest_end(text, start, is_value)
            if end:
                values.append((start, end, order, name))
    return values


def longest_end(text: str, start: int, is_value: Callable[[str, int, int], bool]) -> int:
    """Where the longest value ends; 0 if there is none.  No value has a line feed."""
    line_end = text.find("\n", start)
    last = len(text) if line_end < 0 else line_end
    return next((end for end in range(last, start, -1) if is_value(text, start, end)), 0)
