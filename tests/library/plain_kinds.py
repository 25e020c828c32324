"""The values of ``std:deidentify`` in free text, found slowly: each part of a text is tried.

The parts of a text are compared with plain expressions, without a bound of the time; addresses and
check digits are verified in other ways than in the storlet.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

SPACES = " \t\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f"
DASHES = "\u2010\u2011\u2012\u2013-"
GAP = f"[{SPACES}{DASHES}]"
SEPARATOR = f"[./{DASHES}]"
NUMBERED = re.compile(
    rf"([0-9]{{1,4}})(\.[{SPACES}]|{SEPARATOR})"
    rf"([0-9]{{1,2}})(\.[{SPACES}]|{SEPARATOR})([0-9]{{1,4}})"
)
LOCAL = re.compile(r"\w[^\s\"<>()\[\],;:@\\]*")
QUOTED = re.compile(r'(?<!\\)"([^"]|(?<=\\)"){0,254}"', re.DOTALL)
#: The first and the last character of punctuation and symbols that are not ASCII.
SYMBOLS = (
    "\u00ab\u00ab",
    "\u00bb\u00bb",
    "\u2010\u2bff",
    "\u3001\u3002",
    "\u3008\u301f",
    "\uff01\uff0f",
)
URL = re.compile(r"([a-z][a-z0-9+.-]{1,15}://|www\.(?=\w))[^\s<>\"]+", re.IGNORECASE)
SSN = re.compile(rf"([0-9]{{3}})({GAP})([0-9]{{2}})\2([0-9]{{4}})")
IBAN = re.compile(rf"[A-Za-z]{{2}}[0-9]{{2}}({GAP}?[0-9A-Za-z]){{11,30}}")
CARD = re.compile(rf"[0-9]({GAP}?[0-9]){{12,18}}")
PHONE_DIGIT = f"[{SPACES}./(){DASHES}]{{0,4}}[0-9]"
ABROAD = re.compile(rf"(\+|00){GAP}?\(?[1-9]({PHONE_DIGIT}){{6,14}}")
NATIONAL = re.compile(rf"(\(0\){GAP}?|\(?0)[1-9]({PHONE_DIGIT}){{7,9}}")
EITHER = f"({GAP}|[./])"
AMERICAN = re.compile(
    rf"((1{EITHER}?)?\([2-9][0-9]{{2}}\){EITHER}{{0,2}}|(1{EITHER})?[2-9][0-9]{{2}}{EITHER})"
    rf"[2-9][0-9]{{2}}{EITHER}[0-9]{{4}}"
)
MONTHS = (
    "january jan february feb march mar april apr may june jun july jul august aug september sept"
    " sep october oct november nov december dec"
)
NAME_OF_MONTH = f"({'|'.join(MONTHS.split())})"
#: The search below tries each end of a line, which takes long where no date can begin.
BEGIN_OF_MONTH = "|".join(sorted({name[:3] for name in MONTHS.split()}))
ANY = f"[{SPACES},./{DASHES}]"
DAY_FIRST = re.compile(
    rf"([0-9]{{1,2}})(st|[nr]d|th)?[{SPACES}./{DASHES}]{{0,2}}(of[{SPACES}])?"
    rf"{NAME_OF_MONTH}{ANY}{{0,2}}'?([0-9]{{2,4}})",
    re.IGNORECASE,
)
MONTH_FIRST = re.compile(
    rf"{NAME_OF_MONTH}[{SPACES}./{DASHES}]{{1,2}}([0-9]{{1,2}})(st|[nr]d|th)?"
    rf"([{SPACES},]{{1,2}}[0-9]{{1,2}}:[0-9]{{2}}(:[0-9]{{2}})?([{SPACES}][a-z]{{2,5}}){{0,2}})?"
    rf"{ANY}{{1,2}}([0-9]{{4}})",
    re.IGNORECASE,
)
YEAR_FIRST = re.compile(
    rf"([0-9]{{4}})[{SPACES}./{DASHES}]{{1,2}}{NAME_OF_MONTH}[{SPACES}./{DASHES}]{{1,2}}"
    r"([0-9]{1,2})(st|[nr]d|th)?",
    re.IGNORECASE,
)


def is_email(text: str, start: int, end: int) -> bool:
    at = text.rfind("@", start, end)
    if at < 0 or not any(each.fullmatch(text, start, at) for each in (LOCAL, QUOTED)):
        return False
    *labels, top = text[at + 1 : end].split(".")
    return (
        1 <= len(labels) <= 20
        and all(each and is_word(each[0]) and is_label(each) for each in labels)
        and is_label(top)
        and len(top) > 1
        and top[0].isalnum()
        and not top[0].isdecimal()
        and top[-1] not in "_-"
    )


def is_label(text: str) -> bool:
    return 1 <= len(text) <= 63 and all(is_word(each) or is_mark(each) for each in text)


def is_word(character: str) -> bool:
    """Whether it is a letter, a digit, or the character that names of hosts in DNS may have."""
    return (character.isalnum() or character == "_") and not is_symbol(character)


def is_mark(character: str) -> bool:
    is_other = not character.isascii() and not character.isspace() and not is_symbol(character)
    return character == "-" or is_other


def is_symbol(character: str) -> bool:
    return any(first <= character <= last for first, last in SYMBOLS)


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
    is_in_word = not re.compile("::[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]").match(text, start)
    before = "[0-9A-Za-z]" if is_in_word else ""
    if part == "::" or not is_apart(text, start, end, before, "[0-9A-Za-z]"):
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
    before = "" if text[:start].lower().endswith("iban") else "[0-9A-Za-z]"
    after = "[0-9]" if text[end - 1].isdigit() else "[0-9A-Za-z]"
    return rest == 1 and is_apart(text, start, end, before, after)


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
    before = "[0-9A-Za-z]"
    if text[start] == "+":
        before = "[0-9]"
    elif text[:start].lower().endswith(("tel", "fax", "fon", "phone")):
        before = ""
    if not is_apart(text, start, end, before, "[0-9]"):
        return False
    if NATIONAL.fullmatch(text, start, end):
        return not begins_with_date(text, text.index("0", start))
    return any(each.fullmatch(text, start, end) for each in (ABROAD, AMERICAN))


def begins_with_date(text: str, start: int) -> bool:
    """Whether a date is there, and not the first three pairs of more of them."""
    return any(
        is_long_date(text, start, end)
        or (
            is_short_date(text, start, end)
            and not re.match(f"{SEPARATOR}[0-9]", text[end : end + 2])
        )
        for end in range(start + 6, start + 13)
    )


def is_date(text: str, start: int, end: int) -> bool:
    if not is_apart(text, start, end, "[0-9]", "[0-9]"):
        return False
    if match := DAY_FIRST.fullmatch(text, start, end):
        is_whole = is_year(match[5]) and "'" not in match[0]
        return is_day(match[1]) and (len(match[5]) == 2 or is_whole)
    if match := YEAR_FIRST.fullmatch(text, start, end):
        return is_year(match[1]) and is_day(match[3])
    if match := MONTH_FIRST.fullmatch(text, start, end):
        before = text[max(start - 1, 0) : start]
        is_word = not re.match("[a-z]", before, re.IGNORECASE)
        return is_word and is_day(match[2]) and is_year(match[7])
    if is_short_date(text, start, end):
        separators = re.findall(SEPARATOR, text[start:end])
        return not re.match(f"{re.escape(separators[1])}[0-9]", text[end : end + 2])
    return is_long_date(text, start, end)


def is_long_date(text: str, start: int, end: int) -> bool:
    first, _, middle, _, last = numbers_of(text, start, end)
    if is_year(first):
        return is_month(middle) and is_day(last)
    return is_day_and_month(first, middle) and is_year(last)


def is_short_date(text: str, start: int, end: int) -> bool:
    first, gap, middle, other, last = numbers_of(text, start, end)
    return is_day_and_month(first, middle) and len(gap) == len(other) == 1 and len(last) == 2


def numbers_of(text: str, start: int, end: int) -> Sequence[str]:
    """Three numbers and what is between them; empty texts unless these are whole numbers."""
    match = NUMBERED.fullmatch(text, start, end)
    return match.groups() if match and is_apart(text, end, end, "", "[0-9]") else ("",) * 5


def is_day_and_month(first: str, middle: str) -> bool:
    return (is_day(first) and is_month(middle)) or (is_month(first) and is_day(middle))


def is_year(text: str) -> bool:
    return len(text) == 4 and 1600 <= int(text) < 2200


def is_month(text: str) -> bool:
    return 1 <= len(text) <= 2 and 1 <= int(text) <= 12


def is_day(text: str) -> bool:
    return 1 <= len(text) <= 2 and 1 <= int(text) <= 31


def is_apart(text: str, start: int, end: int, before: str, after: str) -> bool:
    """Whether no such character is beside the part."""
    return not (
        (before and start and re.match(before, text[start - 1]))
        or (after and end < len(text) and re.match(after, text[end]))
    )


#: The first characters of values, and whether a part of a text is one; in the storlet's order.
KINDS: Mapping[str, tuple[str, Callable[[str, int, int], bool]]] = {
    "email": (r'\w|"', is_email),
    "url": (r"(?i)[a-z]", is_url),
    "ipv4": ("[0-9]", is_ipv4),
    "ipv6": ("[0-9A-Fa-f:]", is_ipv6),
    "iban": ("[A-Za-z]{2}[0-9]{2}", is_iban),
    "card": ("[0-9]", is_card),
    "ssn": ("[0-9]", is_ssn),
    "phone": ("[0-9+(]", is_phone),
    "date": (rf"(?i)[0-9]|{BEGIN_OF_MONTH}", is_date),
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
