"""The end of the demo: SQL over the objects below a prefix, and a picture.

Both run storlets of the system library, which no tenant uploads.  The query runs on each object,
which has all rows of one group.  The picture is a histogram, which is stored as an object and also
shown as bars of text.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from .client import Answer, Client
from .progress import say

PREFIX: Final = "weather/"
#: The stations of the objects, and their mean temperatures in degrees Celsius.
STATIONS: Final[Mapping[str, float]] = {"Basel": 19.3, "Davos": 11.8, "Lugano": 22.1}
QUERY: Final = (
    "SELECT station, count(*) AS days, min(degrees) AS coldest, max(degrees) AS warmest"
    " FROM input WHERE degrees >= 10 GROUP BY station"
)
EDGES: Final = (12, 15, 18, 21, 24, 27)
PICTURE: Final = "histogram.svg"
_PICTURED: Final = "Basel"
_LEAST: Final = 10
_DAYS: Final = 31
#: Degrees by which a day differs from the mean at most, and days from one warm day to the next.
_SWING: Final = 7.0
_PERIOD: Final = 9.0
_BAR_COLUMNS: Final = 30
_BAR: Final = re.compile(rb"<title>([^<]*): (\d+)</title>")
_LACKING: Final = "needs the Python package"


def show(client: Client, container: str) -> bool:
    """Run both; return whether the results are as expected."""
    for station in STATIONS:
        client.must("PUT", path_of(container, station), {}, content(station))
    good = show_query(client, container)
    return show_picture(client, container) and good


def path_of(container: str, station: str) -> str:
    """The path of an object."""
    return f"{container}/{PREFIX}{station}.csv"


def degrees(station: str) -> list[float]:
    """The temperatures of a station, a day each, with one decimal."""
    mean = STATIONS[station]
    return [
        round(mean + _SWING * math.sin(math.tau * day / _PERIOD), 1) for day in range(1, _DAYS + 1)
    ]


def content(station: str) -> bytes:
    """The object of a station: CSV."""
    days = enumerate(degrees(station), 1)
    lines = [f"{station},2026-07-{day:02},{value}\n" for day, value in days]
    return "".join(["station,day,degrees\n", *lines]).encode()


def expected_rows() -> list[list[str]]:
    """The result of the query, computed here."""
    rows = [["station", "days", "coldest", "warmest"]]
    for station in sorted(STATIONS):
        found = [value for value in degrees(station) if value >= _LEAST]
        rows.append([station, str(len(found)), str(min(found)), str(max(found))])
    return rows


def show_query(client: Client, container: str) -> bool:
    """Run the query over the prefix; return whether its result is as expected."""
    document = {
        "objects": {"container": container, "prefix": PREFIX},
        "split": {"storlet": "std:sql", "parameters": {"query": QUERY, "output": "jsonl"}},
        "merge": "concat",
    }
    say(
        "\nThe system library needs no upload. SQL over the objects below"
        f" {container}/{PREFIX} (std:distributed,\nstd:sql):\n\n"
        f"  {QUERY.replace(' FROM ', chr(10) + '  FROM ')}\n"
    )
    headers = {"X-Run-Storlet": "std:distributed"}
    answer = client.request("POST", "", headers, json.dumps(document).encode())
    if lacks_package(answer):
        say(f"  not on this machine: {answer.body.decode(errors='replace').strip()}")
        return True
    rows = rows_of(answer.body) if answer.status == 200 and not answer.broken else []
    is_right = rows == expected_rows()
    for line in aligned(rows) if rows else [refusal(answer)]:
        say(f"  {line}")
    say(f"  ({len(STATIONS)} objects, {answer.seconds * 1000:.0f} ms){mark(is_right)}")
    return is_right


def rows_of(lines: bytes) -> list[list[str]]:
    """The names and the values of a result in JSON lines."""
    found = [json.loads(line) for line in lines.splitlines()]
    return [list(found[0]), *([str(value) for value in row.values()] for row in found)]


def show_picture(client: Client, container: str) -> bool:
    """Store the histogram of one object; return whether it is as expected."""
    edges = ",".join(map(str, EDGES))
    source = f"{path_of(container, _PICTURED)}?column=degrees&histogram={edges}&output=svg"
    headers = {"X-Run-Storlet": "std:aggregate", "Destination": f"/{container}/{PICTURE}"}
    copy = client.request("COPY", source, headers)
    say(f"\nA picture (std:aggregate): degrees of {path_of(container, _PICTURED)}\n")
    stored = client.request("GET", f"{container}/{PICTURE}")
    found = bars(stored.body) if copy.status == 201 else []
    is_right = (
        stored.headers.get("Content-Type") == "image/svg+xml"
        and [count for _, count in found] == expected_counts()
    )
    most = max((count for _, count in found), default=1)
    for title, count in found:
        bar = "#" * (_BAR_COLUMNS * count // max(most, 1))
        say(f"  {title:>8} |{bar:{_BAR_COLUMNS}} {count:3}")
    if not found:
        say(f"  {refusal(copy)}")
    say(f"  ({len(stored.body)} bytes of SVG in {container}/{PICTURE}){mark(is_right)}")
    return is_right


def expected_counts() -> list[int]:
    """The days in each bin of the histogram, computed here."""
    values = degrees(_PICTURED)
    return [sum(low <= value < high for value in values) for low, high in itertools.pairwise(EDGES)]


def bars(picture: bytes) -> list[tuple[str, int]]:
    """The bins of a picture, and what they count."""
    return [(title.decode(), int(count)) for title, count in _BAR.findall(picture)]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=False)]
    return [
        "  ".join(
            text.rjust(width) if number else text.ljust(width)
            for number, (text, width) in enumerate(zip(row, widths, strict=False))
        ).rstrip()
        for row in rows
    ]


def lacks_package(answer: Answer) -> bool:
    """Whether the sandbox image has no DuckDB."""
    return answer.status == 422 and _LACKING in answer.body.decode(errors="replace")


def refusal(answer: Answer) -> str:
    """Status and text of an answer that is a failure."""
    return f"{answer.status} {answer.body.decode(errors='replace').strip()[:200]}"


def mark(is_right: bool) -> str:
    """The end of a line of a result."""
    return "" if is_right else "   <-- NOT AS EXPECTED"
