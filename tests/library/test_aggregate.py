"""``std:aggregate`` gives the figures of a slow reference, for all sizes of blocks."""

from __future__ import annotations

import csv
import io
import itertools
import json
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from typing import Any
from xml.etree import ElementTree as ET

import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library.support import LibraryStorlet, shared

STORLET = LibraryStorlet("aggregate")
#: The modules that the storlet has imported.
LINES = shared("utf8_lines")
FIGURES = STORLET.module.number_of.__globals__
BLOCKS = st.integers(1, 40)
NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30).map(str),
    st.integers(-20, 20).map(str),
    st.decimals(-100, 100, places=3).map(str),
    st.sampled_from(["1e400", "-1e-400", "1E+2", ".5", "7.", "+3", "0.0", "-0", "123e-5"]),
)
OTHERS = st.sampled_from(["x", "1_0", "nan", "inf", "0x1", "1,5", "--1", "1e401", "٣", "1" * 121])


def output(data: bytes, block: int | None = None, **parameters: object) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        if block is not None:
            patch.setattr(LINES, "BLOCK_BYTES", block)
        given = {name: str(value) for name, value in parameters.items()}
        ran = STORLET.run(data, given)
    kind = KINDS[given.get("output", "json")]
    assert ran.metadata == {"Content-Type": kind}
    return ran.output


def figures(data: bytes, block: int | None = None, **parameters: object) -> dict[str, Any]:
    """The report; all of its numbers are exact."""
    found: dict[str, Any] = json.loads(output(data, block, **parameters), parse_float=Decimal)
    return found


def failure(data: bytes, **parameters: object) -> str:
    with pytest.raises((STORLET.module.AggregateError, LINES.LineError)) as caught:
        output(data, **parameters)
    return str(caught.value)


def csv_of(rows: list[list[str]], **dialect: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, **dialect).writerows(rows)
    return text.getvalue().encode()


def nearest_rank(values: list[Fraction], percent: str) -> Fraction:
    """The definition, one value after the other."""
    for value in sorted(values):
        not_above = sum(1 for other in values if other <= value)
        if Fraction(not_above, len(values)) * 100 >= Fraction(percent):
            return value
    raise AssertionError(percent)


@given(texts=st.lists(NUMBERS, min_size=1, max_size=12), block=BLOCKS)
def test_numbers_of_csv(texts: list[str], block: int) -> None:
    data = csv_of([["name", "n"], *(['a "b",\nc', text] for text in texts)])
    values = [Fraction(text.rstrip(".")) for text in texts]
    found = figures(
        data, block, column="n", distinct=True, percentiles="0,33.3,50,100", histogram="-20,0,.5,20"
    )
    assert found["count"] == len(values)
    assert found["distinct"] == len(set(values))
    for name, expected in (("min", min(values)), ("max", max(values)), ("sum", sum(values))):
        assert Fraction(found[name]) == expected
    mean = sum(values) / len(values)
    assert abs(Fraction(found["mean"]) - mean) <= abs(mean) / 10**33
    for percent, value in found["percentiles"].items():
        assert Fraction(value) == nearest_rank(values, percent)
    edges = [Fraction(-20), Fraction(0), Fraction(1, 2), Fraction(20)]
    histogram = found["histogram"]
    assert histogram["below"] == sum(1 for value in values if value < edges[0])
    assert histogram["above"] == sum(1 for value in values if value > edges[-1])
    for place, (low, high) in enumerate(itertools.pairwise(edges)):
        is_last = place == 2
        inside = [v for v in values if low <= v < high or (is_last and v == high)]
        assert histogram["bins"][place]["count"] == len(inside)


@given(
    texts=st.lists(st.one_of(NUMBERS, OTHERS, st.just(""), st.none()), max_size=12), block=BLOCKS
)
def test_records_that_are_skipped(texts: list[str | None], block: int) -> None:
    data = csv_of([["name", "n"], *(["a"] if text is None else ["a", text] for text in texts)])
    is_number = [bool(text) and FIGURES["number_of"](text) is not None for text in texts]
    skipped = {
        "missing": sum(1 for text in texts if not text),
        "invalid": sum(
            1 for text, right in zip(texts, is_number, strict=True) if text and not right
        ),
    }
    found = figures(data, block, column="2", wrong="skip")
    assert (found["count"], found["skipped"]) == (sum(is_number), skipped)
    if not all(is_number):
        line = is_number.index(False) + 2
        assert failure(data, column="n").startswith(f"line {line}: ")
    if skipped["invalid"]:
        assert "is no number" in failure(data, column="n", wrong="skip-missing")


@given(
    values=st.lists(st.one_of(st.integers(), st.none(), st.text(), st.booleans(), st.just([1]))),
    block=BLOCKS,
)
def test_json_lines(values: list[Any], block: int) -> None:
    data = b"".join(json.dumps({"a": [1], "k": value}).encode() + b"\n\n" for value in values)
    whole = [value for value in values if type(value) is int]
    within = [value for value in whole if len(str(value)) <= 120]
    found = figures(data, block, column="k", format="jsonl", wrong="skip")
    assert (found["count"], found["sum"]) == (len(within), sum(within))
    assert found["skipped"]["missing"] == values.count(None)
    assert sum(found["skipped"].values()) == len(values) - len(within)
    text = figures(data, block, column="k", format="jsonl", type="text", distinct=1, wrong="skip")
    texts = [json.dumps(v) if type(v) in (int, bool) else v for v in values if v not in (None, [1])]
    assert text["count"] == len(texts)
    assert text["distinct"] == len(set(texts))
    assert (text["min"], text["max"]) == (min(texts, default=None), max(texts, default=None))
    assert "sum" not in text


@pytest.mark.parametrize("text", ["x", "1_0", "nan", "inf", "0x1", "1e401", "٣", "1" * 121, "1 2"])
def test_texts_that_are_no_numbers(text: str) -> None:
    assert "is no number" in failure(f"n\n1\n{text}\n".encode(), column="n")


def test_decimal_fractions_are_added_exactly() -> None:
    assert figures(b"n\n" + b"0.1\n" * 10, column="n")["sum"] == 1
    assert b'"sum": 0.3,' in output(b"n\n0.1\n0.2\n", column="n")
    found = output(b"n\n1e400\n-1e-400\n-1e400\n", column="n")
    assert b'"sum": -1E-400,' in found


def test_a_column_without_values() -> None:
    found = figures(b"n\n", column="n", percentiles=50, distinct=True)
    assert found == {
        "column": "n", "count": 0, "min": None, "max": None, "sum": 0, "mean": None,
        "percentiles": {"50": None}, "distinct": 0,
    }  # fmt: skip
    assert figures(b"", column="1", header=False)["count"] == 0
    assert "the object has no header" in failure(b"", column="n")


def test_columns_of_the_header() -> None:
    assert figures("\ufeff2,1\n5,6\n".encode(), column="2")["sum"] == 5
    assert failure(b"a,b\n1,2\n", column="c") == "line 1: there is no column 'c' among 'a', 'b'"
    assert "there is no column '3'" in failure(b"a,b\n1,2\n", column="3")
    assert failure(b"a,a\n1,2\n", column="a") == "line 1: 2 columns have the name 'a'"
    assert failure(b"a,b\n1\n", column="b") == "line 2: has no value in 'b'"
    assert " and 80 more" in failure(b",".join([b"x"] * 100) + b"\n", column="b")


@pytest.mark.parametrize("wrong", ["fail", "skip"])
def test_a_record_with_more_values_than_the_header(wrong: str) -> None:
    """Without quotes, 1,000 are two values, of which the first is no number of the column."""
    text = failure(b"name,price\nx,1\ny,1,000\n", column="price", wrong=wrong)
    assert text.startswith("line 3: has 3 values, and the header 2")
    assert figures(b"x,1\ny,1,000\n", column="2", header="false")["sum"] == 2
    assert figures(b"name,price\nx,1,\ny,2\n", column="2")["sum"] == 3


@pytest.mark.parametrize("wrong", ["fail", "skip"])
def test_a_key_that_is_there_twice(wrong: str) -> None:
    for line in ('{"a": 1, "a": 2}', '{"a": 1, "b": [{"c": 1, "c": 2}]}'):
        text = failure(f'{{"a": 1}}\n{line}\n'.encode(), column="a", format="jsonl", wrong=wrong)
        assert text == "line 2: a key is there twice"


def test_empty_values_of_csv_are_texts() -> None:
    found = figures(b"a,b\n,1\nx,2\n", column="a", type="text", distinct=1)
    assert (found["count"], found["min"], found["distinct"]) == (2, "", 2)


def test_dialects() -> None:
    given = {"delimiter": "tab", "quote": "'", "escape": "\\", "column": "2"}
    assert figures(b"a\tn\n'x\ty'\t4\n\\'\t5\n", **given)["sum"] == 9
    assert figures(b"x 4\n", delimiter="space", column="2", header="false")["sum"] == 4
    assert figures(b'"|3\n', delimiter="|", quote="none", column="2", header="false")["sum"] == 3


def test_texts_that_are_not_of_the_format() -> None:
    assert failure(b'a\n1\n"2', column="a").startswith("line 3: ")
    assert failure(b"a\n1\n\xff\n", column="a").startswith("line 3: is not UTF-8")
    given = {"column": "a", "format": "jsonl", "wrong": "skip"}
    assert failure(b'{"a": 1}\n{"a": 2\n', **given).startswith("line 2: is not JSON")
    assert failure(b"[" * 100_000, **given).startswith("line 1: is not JSON")
    assert failure(b"\n[1]\n", **given) == "line 2: is not a JSON object"


@pytest.mark.parametrize("data", [b"x" * 3000, b'"' + b"x\n" * 1500, b"1," * 2000])
def test_long_records(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(LINES, "MOST_RECORD_BYTES", 1000)
    monkeypatch.setattr(LINES, "BLOCK_BYTES", 100)
    assert "1000" in failure(data, column="1", header="false")
    assert figures(b"1\n" * 5000, column="1", header="false")["count"] == 5000


def test_different_values_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STORLET.module, "MOST_VALUES", 100)
    data = b"n\n" + b"".join(b"%d\n" % (number % 101) for number in range(1000))
    for wanted in ({"distinct": True}, {"percentiles": "50"}):
        assert "more than 100 different values" in failure(data, column="n", **wanted)
    assert figures(data.replace(b"100\n", b"99\n"), column="n", distinct=True)["distinct"] == 100
    assert figures(data, column="n")["count"] == 1000
    monkeypatch.setattr(STORLET.module, "MOST_VALUE_CHARACTERS", 50)
    assert "more than 50 characters" in failure(data, column="n", type="text", distinct=True)


def test_all_faults_of_the_parameters() -> None:
    text = failure(
        b"", column="x", header=False, percentiles="101,y", histogram="5", delimiter="", quote="ab",
        escape="cd",
    )  # fmt: skip
    assert text.split("; ") == [
        "column: 'x': want a number from 1, as header is false",
        "percentiles: 'y': no number",
        "percentiles: 101: want 0 to 100",
        "histogram: want at least two edges",
        "delimiter: want one character, tab or space",
        "quote: want one character, or none",
        "escape: want one character, or nothing",
    ]
    assert "each edge must be above" in failure(b"", column="x", histogram="1,1")
    assert "want different characters" in failure(b"", column="x", delimiter='"')
    assert "want at most 100" in failure(b"", column="x", percentiles=",".join(["1"] * 101))
    assert "column: is empty" in failure(b"", column="")
    text = failure(b"", column="x", type="text", percentiles="1", histogram="1,2")
    assert text == "type=text: has no percentiles; type=text: has no histogram"


KINDS = {"json": "application/json", "svg": "image/svg+xml", "png": "image/png"}
SVG = "{http://www.w3.org/2000/svg}"


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80),
    values=st.lists(st.integers(-20, 120), max_size=20),
    edges=st.lists(st.integers(-10, 110), min_size=2, max_size=40, unique=True).map(sorted),
)
def test_a_picture_has_a_bar_for_each_bin(name: str, values: list[int], edges: list[int]) -> None:
    data = b"".join(json.dumps({name: value}).encode() + b"\n" for value in values)
    given = {"column": name, "format": "jsonl", "histogram": ",".join(map(str, edges))}
    report = figures(data, **given)["histogram"]
    root = ET.fromstring(output(data, **given, output="svg"))  # noqa: S314  our own
    assert {element.tag for element in root.iter()} <= {
        SVG + each for each in ("svg", "rect", "title", "path", "text")
    }
    bars = [element for element in root.iter(f"{SVG}rect") if len(element)]
    counts = [each["count"] for each in report["bins"]]
    titles = [
        f"{low} to {high}: {count}"
        for (low, high), count in zip(itertools.pairwise(edges), counts, strict=True)
    ]
    assert [bar[0].text for bar in bars] == titles
    most = max(counts)
    full = max(float(bar.get("height", 0)) for bar in bars)
    for bar, count in zip(bars, counts, strict=True):
        assert float(bar.get("height", 0)) == pytest.approx(full * count / (most or 1), abs=0.01)
        assert float(bar.get("y", 0)) + float(bar.get("height", 0)) == pytest.approx(300, abs=0.02)
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert texts[-1] == (
        f"values: {len(values)}, below: {report['below']}, above: {report['above']}"
    )
    assert len(texts) < 20


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80),
    values=st.lists(st.integers(-20, 120), max_size=20),
    edges=st.lists(st.integers(-10, 110), min_size=2, max_size=40, unique=True).map(sorted),
)
def test_a_png_has_the_bars_and_the_words(name: str, values: list[int], edges: list[int]) -> None:
    data = b"".join(json.dumps({name: value}).encode() + b"\n" for value in values)
    given = {"column": name, "format": "jsonl", "histogram": ",".join(map(str, edges))}
    report = figures(data, **given)["histogram"]
    picture = PIL.Image.open(io.BytesIO(output(data, **given, output="png")))
    assert (picture.format, picture.size) == ("PNG", (720, 360))
    assert picture.text["Title"] == name.replace("\0", "\ufffd")  # type: ignore[attr-defined]
    caption = f"values: {len(values)}, below: {report['below']}, above: {report['above']}"
    assert picture.text["Description"] == caption  # type: ignore[attr-defined]
    pixels = picture.convert("RGB")
    counts = [each["count"] for each in report["bins"]]
    most = max(counts) or 1
    for place, count in enumerate(counts):
        middle = 70 + (2 * place + 1) * 630 // (2 * len(counts))
        blue = [y for y in range(360) if pixels.getpixel((middle, y)) == (0x48, 0x78, 0xA8)]
        assert blue == list(range(300 - -(-250 * count // most), 300))


def test_a_png_has_the_figures_of_its_axes() -> None:
    data = b"x\n" + b"1\n" * 7
    pictures = [
        PIL.Image.open(io.BytesIO(output(data, column="x", histogram=edges, output="png")))
        for edges in ("0,5", "0,6", "-1.5,1e30")
    ]
    first, second, third = (picture.crop((0, 301, 720, 360)).tobytes() for picture in pictures)
    assert len({first, second, third}) == 3
    shades = pictures[0].convert("L").crop((0, 0, 70, 360)).histogram()
    assert shades[0] > 50
    assert shades[0] + shades[255] == 360 * 70


def test_the_name_of_a_column_is_text_in_a_picture() -> None:
    name = "<script>alert(1)</script>&\x01"
    data = json.dumps({name: 3}).encode()
    given = {"column": name, "format": "jsonl", "histogram": "0,5", "output": "svg"}
    found = output(data, **given)
    assert b"<script" not in found
    root = ET.fromstring(found)  # noqa: S314  our own
    assert next(root.iter(f"{SVG}text")).text == "<script>alert(1)</script>&\ufffd"
    assert "output=svg: want a histogram" in failure(b"", column="x", output="svg")


def test_a_picture_has_no_other_figures() -> None:
    given = {"column": "x", "histogram": "0,5", "output": "svg"}
    text = failure(b"x\n1\n", **given, percentiles="50", distinct="true")
    assert text == "output=svg: has no percentiles; output=svg: has no distinct"
    assert output(b"x\n1\n", **given, distinct="false").startswith(b"<svg")
    assert failure(b"", column="x", output="png") == "output=png: want a histogram"


def test_the_memory_does_not_depend_on_the_size_of_the_object() -> None:
    data = b"n\n" + b"".join(b"%d.5\n" % number for number in range(100)) * 1000
    tracemalloc.start()
    try:
        assert figures(data, column="n", distinct=True, percentiles="50")["distinct"] == 100
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 << 20
