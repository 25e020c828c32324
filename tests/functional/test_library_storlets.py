"""Each storlet of the system library on a cluster: GET at the object node, PUT, COPY.

Three are in rules as well: ``std:fixity`` reads a stream, ``std:sql-parquet`` is seekable, and
``std:deidentify-dicom`` has a secret.  :mod:`.test_library_in_rules` has each storlet in a rule.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import hmac
import io
import itertools
import json
import lzma
import re
import struct
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blake3
import crc32c
import nanoarrow
import PIL.Image
import pytest

from tests.functional.wards import RESEARCHER, Ward, make_ward
from tests.support.accounts import unique
from tests.support.cluster import CHECKOUT
from tests.support.http import Answer, Client

HEBREW = "שלום"
TEXT = b"the first line\n" * 2000 + f"{HEBREW}\n".encode() * 2 + b"the last line\n"
REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
PAGE = CHECKOUT / "docs/user/library/how-to.rst"
#: The commands of the page fail with the status of the response.
CURL = 'set -eu\ncurl() { command curl -sS --fail-with-body "$@"; }\n'
RULE = """\
version: 1
rules:
- name: filter
  when: {{method: GET, container: patients, user: "{user}"}}
  run: {{storlet: "{storlet}", parameters: {parameters}}}
"""
PAIR = """\
version: 1
rules:
- name: compress
  when: {method: PUT, container: patients}
  run: {storlet: "std:compress"}
- name: decompress
  when: {method: GET, container: patients, user: "test2:tester2"}
  run: {storlet: "std:decompress", parameters: {accept-plain: "true"}}
"""

IMAGE_RULE = """\
version: 1
rules:
- name: web-size
  when: {method: PUT, container: patients}
  run: {storlet: "std:image", parameters: {width: "64", height: "64", format: jpeg}}
"""


def run_headers(storlet: str, parameters: dict[str, str]) -> dict[str, str]:
    given = enumerate(parameters.items())
    numbered = {f"X-Storlet-Parameter-{n}": f"{name}:{value}" for n, (name, value) in given}
    return {"X-Run-Storlet": storlet} | numbered


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    return make_ward(users)


@pytest.fixture
def text(owner: Client, container: str) -> str:
    path = f"{container}/text.txt"
    headers = {"X-Object-Meta-Colour": "red", "Content-Type": "text/csv"}
    assert owner.put(path, TEXT, headers).status == 201
    return path


def got(owner: Client, path: str, storlet: str, **parameters: str) -> Answer:
    """The output of a GET, which ran on the object node."""
    answer = owner.get(path, run_headers(storlet, parameters))
    assert (answer.status, answer.headers["X-Storlet-Ran-On"]) == (200, "object"), answer
    assert not answer.is_broken
    return answer


def stored(owner: Client, path: str, storlet: str, body: bytes, **parameters: str) -> Answer:
    """The object that a PUT with the storlet has made."""
    answer = owner.put(path, body, run_headers(storlet, parameters))
    assert answer.status == 201, answer
    return owner.get(path)


def copied(owner: Client, source: str, path: str, storlet: str, **parameters: str) -> Answer:
    """The object that a COPY with the storlet has made."""
    copy = run_headers(storlet, parameters) | {"X-Copy-From": source}
    answer = owner.put(path, b"", copy)
    assert answer.status == 201, answer
    return owner.get(path)


def ruled(ward: Ward, storlet: str, body: bytes, **parameters: str) -> Answer:
    """The response to a GET for which a rule runs the storlet."""
    # Without the rules of another test, which may apply to the upload.
    assert ward.admin.delete("storlet_rules/rules.yaml").status in (204, 404)
    assert ward.admin.put("patients/ruled", body).status == 201
    ward.rule(RULE.format(user=RESEARCHER, storlet=storlet, parameters=json.dumps(parameters)))
    return ward.researcher.get("patients/ruled")


def test_fixity(owner: Client, container: str, text: str, ward: Ward) -> None:
    sha256, md5 = hashlib.sha256(TEXT).hexdigest(), hashlib.md5(TEXT).hexdigest()  # noqa: S324
    report = {"bytes": len(TEXT), "digests": {"md5": md5, "sha256": sha256}}
    answer = got(owner, text, "std:fixity", algorithms="md5,sha256")
    assert json.loads(answer.body) == report
    assert answer.headers["Content-Type"] == "application/json"
    target = f"{container}/checked"
    given = {"mode": "fail", "output": "data"}
    right = {**given, "expected": f"sha256:{sha256}"}
    assert stored(owner, target, "std:fixity", TEXT, **right).body == TEXT
    wrong = {**given, "expected": f"sha256:{'0' * 64}"}
    refused = owner.put(f"{container}/wrong", TEXT, run_headers("std:fixity", wrong))
    assert refused.error == "storlet.failed"
    assert f"sha256 is {sha256}, not 000" in refused.text
    assert owner.get(f"{container}/wrong").status == 404
    copy = copied(owner, text, target, "std:fixity", **right)
    assert (copy.body, copy.meta("Colour")) == (TEXT, "red")
    assert json.loads(ruled(ward, "std:fixity", TEXT, algorithms="md5,sha256").body) == report
    found = json.loads(got(owner, text, "std:fixity", algorithms="crc32c,blake3").body)["digests"]
    assert found == {
        "crc32c": f"{crc32c.crc32c(TEXT):08x}",
        "blake3": blake3.blake3(TEXT).hexdigest(),
    }


def test_fixity_against_a_manifest(owner: Client, container: str, text: str) -> None:
    sha256 = hashlib.sha256(TEXT).hexdigest()
    manifest = f"{container}/manifest-sha256.txt"
    assert owner.put(manifest, f"{sha256}  data/text.txt\n".encode()).status == 201
    extra = {"X-Storlet-Extra-Resources": f"/{manifest}"}
    answer = owner.get(text, run_headers("std:fixity", {"path": "data/text.txt"}) | extra)
    assert (answer.status, json.loads(answer.body)["matches"]) == (200, True)
    checked = {"path": "data/text.txt", "mode": "fail", "output": "data"}
    target = f"{container}/from a bag"
    run = run_headers("std:fixity", checked) | extra
    assert owner.put(target, b"", run | {"X-Copy-From": text}).status == 201
    assert owner.get(target).body == TEXT
    other = f"{container}/other"
    assert owner.put(other, TEXT + b"more").status == 201
    refused = owner.put(f"{container}/changed", b"", run | {"X-Copy-From": other})
    assert (refused.status, refused.error) == (422, "storlet.failed")
    assert f", not {sha256}" in refused.text
    assert owner.get(f"{container}/changed").status == 404
    absent = owner.get(text, run_headers("std:fixity", {"path": "text.txt"}) | extra)
    assert (absent.status, absent.error) == (422, "storlet.failed")
    assert "manifest: 'text.txt' is not there" in absent.text


def test_compress_and_decompress(owner: Client, container: str, text: str, ward: Ward) -> None:
    small, back = f"{container}/small", f"{container}/back"
    answer = got(owner, text, "std:compress", format="xz", policy="best")
    assert lzma.decompress(answer.body) == TEXT
    assert answer.meta("Compression") == "xz"
    answer = stored(owner, small, "std:compress", TEXT, format="bz2")
    assert bz2.decompress(answer.body) == TEXT
    answer = copied(owner, text, small, "std:compress")
    assert gzip.decompress(answer.body) == TEXT
    assert (answer.meta("Compression"), answer.meta("Colour")) == ("gzip", "red")
    assert answer.headers["Content-Type"] == "text/csv"
    assert got(owner, small, "std:decompress").body == TEXT
    for kind in ("zstd", "lz4"):
        answer = stored(owner, f"{container}/{kind}", "std:compress", TEXT, format=kind)
        assert (answer.meta("Compression"), answer.size < 1000) == (kind, True)
        assert got(owner, f"{container}/{kind}", "std:decompress").body == TEXT
    answer = copied(owner, small, back, "std:decompress")
    assert (answer.body, answer.meta("Compression"), answer.meta("Colour")) == (TEXT, None, "red")
    cut = owner.put(back, gzip.compress(TEXT)[:-1], run_headers("std:decompress", {}))
    assert cut.error == "storlet.failed"
    assert "the object is cut" in cut.text
    bomb = run_headers("std:decompress", {}) | {"X-Storlet-Limit-Output": "1M"}
    refused = owner.put(back, gzip.compress(bytes(1 << 24)), bomb)
    assert refused.error == "storlet.limit.output"
    assert owner.get(back).body == TEXT


def test_a_pair_of_rules_stores_objects_compressed(ward: Ward) -> None:
    ward.rule("version: 1\nrules: []\n")
    assert ward.admin.put("patients/old", b"was there before").status == 201
    ward.rule(PAIR)
    assert ward.physician.put("patients/new", TEXT).status == 201
    kept = ward.admin.get("patients/new")
    assert gzip.decompress(kept.body) == TEXT
    read = ward.researcher.get("patients/new")
    assert (read.status, read.body, read.meta("Compression")) == (200, TEXT, None)
    assert ward.researcher.get("patients/old").body == b"was there before"


def test_grep(owner: Client, container: str, text: str) -> None:
    given = {"pattern": "^the l[a-z]+", "before": "1", "line-numbers": "true"}
    shown = f"2002-{HEBREW}\n2003:the last line\n".encode()
    assert got(owner, text, "std:grep", **given).body == shown
    count = {"pattern": "the f.*t", "count": "true"}
    assert stored(owner, f"{container}/put", "std:grep", TEXT, **count).body == b"2000\n"
    assert copied(owner, text, f"{container}/copy", "std:grep", **given).body == shown


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        ("First-Byte", "storlet.timeout.first_byte"),
        ("Total", "storlet.timeout.total"),
    ],
)
def test_a_deadline_ends_the_search_of_a_line(
    owner: Client, container: str, limit: str, error: str
) -> None:
    path = f"{container}/long"
    assert owner.put(path, b"a" * 80 + b"\n").status == 201
    deadline = {f"X-Storlet-Limit-Timeout-{limit}": "1s"}
    answer = owner.get(path, run_headers("std:grep", {"pattern": "(a+)+b"}) | deadline)
    assert answer.error == error, answer


def test_text(owner: Client, container: str, text: str) -> None:
    assert got(owner, text, "std:text", do="tail", count="1").body == b"the last line\n"
    assert got(owner, text, "std:text", do="head", count="1").body == b"the first line\n"
    sample = got(owner, text, "std:text", do="sample", count="2000", seed="1").body
    assert sample == got(owner, text, "std:text", do="sample", count="2000", seed="1").body
    assert sample.count(b"\n") == 2000
    words = got(owner, text, "std:text", do="wc")
    assert words.body.splitlines()[2:] == [b"lines\t2003", b"words\t6005"]
    hebrew = stored(
        owner, f"{container}/utf8", "std:text", HEBREW.encode("iso-8859-8"),
        do="to-utf8", charset="iso-8859-8",
    )  # fmt: skip
    assert (hebrew.text, hebrew.headers["Content-Type"]) == (HEBREW, "text/plain; charset=utf-8")
    unique = copied(owner, text, f"{container}/unique", "std:text", do="uniq", counts="true")
    assert unique.text == f"the first line\t2000\n{HEBREW}\t2\nthe last line\t1\n"
    assert unique.headers["Content-Type"] == "text/csv"
    refused = owner.get(text, run_headers("std:text", {"do": "shuffle", "lines": "3"}))
    assert (refused.status, refused.error) == (400, "bad_request")
    assert "parameter 'do': 'shuffle': want one of to-utf8, head" in refused.text
    assert "parameter 'lines': unknown" in refused.text


def test_sorted_and_split_text(owner: Client, container: str) -> None:
    numbers, head = f"{container}/numbers", f"{container}/head"
    assert owner.put(numbers, b"10\n9\n-1\n9").status == 201
    assert got(owner, numbers, "std:text", do="sort").body == b"-1\n10\n9\n9\n"
    largest = copied(
        owner, numbers, f"{container}/largest", "std:text", do="sort", by="number", reverse="true"
    )
    assert largest.body == b"10\n9\n9\n-1\n"
    run = run_headers("std:text", {"do": "split", "count": "1"})
    rest = f"{container}/rest"
    answer = owner.get(numbers, run | {"X-Storlet-Output": f"/{head}, /{rest}"})
    assert (answer.status, answer.body) == (200, b"10\n")
    assert (owner.get(head).body, owner.get(rest).body) == (b"9\n", b"-1\n9\n")
    # A text that cannot be sorted stores nothing.
    target = f"{container}/unsorted"
    words = run_headers("std:text", {"do": "sort", "by": "number"}) | {"X-Copy-From": head}
    assert owner.put(head, b"1\nword\n").status == 201
    refused = owner.put(target, b"", words)
    assert (refused.status, refused.error) == (422, "storlet.failed")
    assert "sort: line 2 is no number: 'word'" in refused.text
    assert owner.get(target).status == 404


def test_aggregate(owner: Client, container: str) -> None:
    lines = b"city,degrees\n" + f"{HEBREW},0.1\n".encode() * 3 + b"Bern,\n"
    path = f"{container}/degrees.csv"
    assert owner.put(path, lines).status == 201
    given = {"column": "degrees", "wrong": "skip-missing", "percentiles": "50"}
    shown = (
        b'{"column": "degrees", "count": 3, "min": 0.1, "max": 0.1, "sum": 0.3, "mean": 0.1, '
        b'"percentiles": {"50": 0.1}, "skipped": {"missing": 1}}\n'
    )
    answer = got(owner, path, "std:aggregate", **given)
    assert (answer.body, answer.headers["Content-Type"]) == (shown, "application/json")
    assert stored(owner, f"{container}/put", "std:aggregate", lines, **given).body == shown
    assert copied(owner, path, f"{container}/copy", "std:aggregate", **given).body == shown
    plain = {"column": "degrees", "wrong": "skip-missing"}
    chart = got(owner, path, "std:aggregate", **plain, histogram="0,1", output="svg")
    assert chart.headers["Content-Type"] == "image/svg+xml"
    assert chart.body.startswith(b"<svg ")
    chart = got(owner, path, "std:aggregate", **plain, histogram="0,1", output="png")
    assert chart.headers["Content-Type"] == "image/png"
    assert PIL.Image.open(io.BytesIO(chart.body)).size == (720, 360)
    refused = owner.put(
        f"{container}/wrong", lines, run_headers("std:aggregate", {"column": "degrees"})
    )
    assert refused.error == "storlet.failed"
    assert "line 5: has no value in 'degrees'" in refused.text
    assert owner.get(f"{container}/wrong").status == 404


#: The same table as the sample ``input.csv``.
PARQUET = CHECKOUT / "storlets/std/sql-parquet/tests/input.parquet"
STATIONS = f'city,degrees,note\n{HEBREW},21.5,\nBern,19,"warm, dry"\n{HEBREW},25,\n'.encode()


def arrow_rows(data: bytes) -> list[dict[str, object]]:
    return list(nanoarrow.ArrayStream.from_readable(data).read_all().to_pylist())


def test_sql(owner: Client, container: str) -> None:
    path = f"{container}/stations.csv"
    assert owner.put(path, STATIONS).status == 201
    given = {"query": "SELECT city, max(degrees) AS top FROM input GROUP BY city ORDER BY top DESC"}
    shown = f"city,top\n{HEBREW},25.0\nBern,19.0\n".encode()
    answer = got(owner, path, "std:sql", **given)
    assert (answer.body, answer.headers["Content-Type"]) == (shown, "text/csv; charset=utf-8")
    assert stored(owner, f"{container}/put", "std:sql", STATIONS, **given).body == shown
    assert copied(owner, path, f"{container}/copy", "std:sql", **given).body == shown
    lines = {"query": "SELECT city FROM input WHERE note IS NOT NULL", "output": "jsonl"}
    found = stored(owner, f"{container}/lines", "std:sql", STATIONS, **lines)
    assert (found.body, found.headers["Content-Type"]) == (
        b'{"city":"Bern"}\n',
        "application/x-ndjson",
    )
    arrow = got(owner, path, "std:sql", **given, output="arrow")
    assert arrow.headers["Content-Type"] == "application/vnd.apache.arrow.stream"
    assert arrow_rows(arrow.body) == [{"city": HEBREW, "top": 25.0}, {"city": "Bern", "top": 19.0}]
    back = {"query": "SELECT count(*) AS n FROM input", "format": "jsonl", "compression": "gzip"}
    assert owner.put(f"{container}/packed", gzip.compress(found.body * 50_000)).status == 201
    assert got(owner, f"{container}/packed", "std:sql", **back).body == b"n\n50000\n"


#: An object of Arrow with compressed batches and a dictionary, which pyarrow has written.
ARROW = CHECKOUT / "storlets/std/sql/tests/input.arrow"
ARROW_QUERY = {
    "query": "SELECT kind, count(*) AS n, max(price) AS p FROM input GROUP BY kind ORDER BY n, p",
    "format": "arrow",
}
ARROW_SHOWN = b"kind,n,p\nx,1,1.50\ny,2,-0.05\n,2,\n"


def test_arrow(owner: Client, container: str) -> None:
    path = f"{container}/table.arrow"
    data = ARROW.read_bytes()
    assert owner.put(path, data).status == 201
    assert got(owner, path, "std:sql", **ARROW_QUERY).body == ARROW_SHOWN
    assert stored(owner, f"{container}/put", "std:sql", data, **ARROW_QUERY).body == ARROW_SHOWN
    assert copied(owner, path, f"{container}/copy", "std:sql", **ARROW_QUERY).body == ARROW_SHOWN
    given = {"format": "arrow", "output": "parquet"}
    table = copied(owner, path, f"{container}/table.parquet", "std:convert", **given)
    assert table.body.startswith(b"PAR1")
    shown = {"query": "SELECT typeof(price) AS t, count(*) AS n FROM input GROUP BY ALL"}
    answer = got(owner, f"{container}/table.parquet", "std:sql-parquet", **shown)
    assert answer.body == b't,n\n"DECIMAL(8,2)",5\n'
    again = got(owner, path, "std:convert", format="arrow", output="arrow")
    assert owner.put(path, again.body).status == 201
    assert got(owner, path, "std:sql", **ARROW_QUERY).body == ARROW_SHOWN
    for cut in (data[:-20], data[: len(data) // 2], again.body[:-8]):
        refused = owner.put(f"{container}/cut", cut, run_headers("std:sql", ARROW_QUERY))
        assert (refused.status, refused.error) == (422, "storlet.failed"), refused
        assert "cut" in refused.text
        assert owner.get(f"{container}/cut").status == 404


def test_sql_over_many_objects(owner: Client, container: str) -> None:
    """18 objects are more than a merge has inputs; one is empty, and one has names only."""
    folder = f"{container}/parts"
    bodies = [b"k,v\n%c,%d\n%c,%d\n" % (97 + n % 3, n, 98, -n) for n in range(16)]
    for number, body in enumerate([b"", b"k,v\n", *bodies]):
        assert owner.put(f"{folder}/{number:02}", body).status == 201
    query = "SELECT k, avg(v) AS mean, count(*) AS n FROM input GROUP BY k HAVING n > 4 ORDER BY k"
    document: dict[str, object] = {
        "objects": {"container": container, "prefix": "parts/"},
        "split": {"storlet": "std:sql", "parameters": {"query": query, "output": "partial"}},
        "merge": "std:sql-merge",
        # Each run at the same time has a worker, whose start takes longer than the query.
        "concurrency": 3,
    }
    rows = [line.split(b",") for body in bodies for line in body.split()[1:]]
    groups = {key: [int(v) for k, v in rows if k == key] for key in (b"a", b"b", b"c")}
    wanted = "".join(
        f"{key.decode()},{sum(values) / len(values)},{len(values)}\n"
        for key, values in groups.items()
    )
    headers = {"X-Run-Storlet": "std:distributed"}
    answer = owner.request("POST", "", headers=headers, body=json.dumps(document).encode())
    assert (answer.status, answer.body.decode()) == (200, f"k,mean,n\n{wanted}")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert owner.put(f"{folder}/00", b"k,v\na,x\n").status == 201
    document["objects"] = [f"/{folder}/00", f"/{folder}/02"]
    answer = owner.request("POST", "", headers=headers, body=json.dumps(document).encode())
    assert (answer.status, answer.error) == (422, "storlet.failed")
    assert "parts/00" in answer.text
    assert "avg" in answer.text


def test_sql_over_objects_that_lack_keys(owner: Client, container: str) -> None:
    for number, line in enumerate([b'{"k":"a","size":1}', b'{"k":"b"}', b'{"k":"a","size":2}']):
        assert owner.put(f"{container}/lines/{number}", line).status == 201

    def summed(key: str) -> Answer:
        query = f"SELECT k, sum({key}) AS s FROM input GROUP BY k ORDER BY k"  # noqa: S608
        parameters = {"query": query, "output": "partial", "format": "jsonl"}
        body = {
            "objects": {"container": container, "prefix": "lines/"},
            "split": {"storlet": "std:sql", "parameters": parameters},
            "merge": "std:sql-merge",
        }
        headers = {"X-Run-Storlet": "std:distributed"}
        return owner.request("POST", "", headers=headers, body=json.dumps(body).encode())

    assert summed("size").body == b"k,s\na,3\nb,\n"
    refused = summed("sizes")
    assert refused.error == "storlet.failed"
    assert "no object has the key 'sizes' (the nearest one is 'size')" in refused.text


def test_sql_parquet(owner: Client, container: str, ward: Ward) -> None:
    path = f"{container}/table.parquet"
    data = PARQUET.read_bytes()
    assert owner.put(path, data).status == 201
    given = {"query": "SELECT station FROM input WHERE temperature > 24 ORDER BY station"}
    shown = "station\nGenève\nLugano\n".encode()
    answer = got(owner, path, "std:sql-parquet", **given)
    assert (answer.body, answer.headers["Content-Type"]) == (shown, "text/csv; charset=utf-8")
    assert copied(owner, path, f"{container}/copy", "std:sql-parquet", **given).body == shown
    assert ruled(ward, "std:sql-parquet", data, **given).body == shown
    assert owner.put(path, data[:-20]).status == 201
    refused = owner.get(path, run_headers("std:sql-parquet", given))
    assert refused.error == "storlet.failed"
    assert "the object is no valid Parquet" in refused.text


def test_convert(owner: Client, container: str, ward: Ward) -> None:
    table, made = f"{container}/table.csv", f"{container}/table.parquet"
    lines = b"id,price\n1,2.50\n2,-0.25\n"
    assert owner.put(table, lines).status == 201
    typed = {"output": "parquet", "columns": '{"id": "int16", "price": "decimal(8,2)"}'}
    assert copied(owner, table, made, "std:convert", **typed).body.startswith(b"PAR1")
    query = {"query": "SELECT typeof(id) AS i, sum(price) AS p FROM input GROUP BY ALL"}
    assert got(owner, made, "std:sql-parquet", **query).body == b"i,p\nSMALLINT,2.25\n"
    back, shown = {"output": "jsonl"}, b'{"id":1,"price":2.5}\n{"id":2,"price":-0.25}\n'
    assert got(owner, made, "std:convert-parquet", **back).body == shown
    assert copied(owner, made, f"{container}/rows", "std:convert-parquet", **back).body == shown
    assert ruled(ward, "std:convert-parquet", owner.get(made).body, **back).body == shown
    given = {"output": "arrow", "columns": '{"id": "int16"}'}
    arrow = stored(owner, f"{container}/arrow", "std:convert", lines, **given)
    assert arrow.headers["Content-Type"] == "application/vnd.apache.arrow.stream"
    assert arrow_rows(arrow.body) == [
        {"id": 1, "price": 2.5},
        {"id": 2, "price": -0.25},
    ]
    records = {"output": "records", "struct": "i2 id, f4 price"}
    packed = struct.pack("<hfhf", 1, 2.5, 2, -0.25)
    assert stored(owner, f"{container}/bin", "std:convert", lines, **records).body == packed
    again = {"format": "records", "output": "csv", "struct": "i2 id, f4 price"}
    assert owner.put(table, packed).status == 201
    assert got(owner, table, "std:convert", **again).body == b"id,price\n1,2.5\n2,-0.25\n"
    wrong = owner.put(made, lines.replace(b"-0.25", b"-0.255"), run_headers("std:convert", typed))
    assert (wrong.status, wrong.error) == (422, "storlet.failed")
    assert "column 'price': -0.255 is no DECIMAL(8,2)" in wrong.text


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT * FROM read_text('/etc/passwd')", "'read_text': is refused"),
        ("COPY input TO '/tmp/x'", "want one SELECT"),
        ("SET memory_limit = '100GB'", "want one SELECT"),
        ("INSTALL httpfs", "want one SELECT"),
        ("SELECT city FROM input; SELECT 1", "has 2 statements"),
        ("SELECT town FROM input", "line 1, at 'town FROM input'"),
        ("SELECT a.range FROM range(90000000) a ORDER BY hash(a.range)", "needs more memory"),
    ],
)
def test_a_refused_query_leaves_nothing(
    owner: Client, container: str, query: str, text: str
) -> None:
    path = f"{container}/stations.csv"
    refused = owner.put(path, STATIONS, run_headers("std:sql", {"query": query}))
    assert (refused.status, refused.error) == (422, "storlet.failed"), refused
    assert text in refused.text
    assert owner.get(path).status == 404


def test_a_bomb_ends_within_the_limits(owner: Client, container: str) -> None:
    path = f"{container}/stations.csv"
    assert owner.put(path, STATIONS).status == 201
    endless = {
        "query": "SELECT max(hash(a.range + b.range)) AS n FROM range(1000000) a, range(1000000) b"
    }
    plain = {"query": "SELECT count(*) AS n FROM input"}
    # It starts a worker, so that the second of the endless query is one of the engine.
    assert got(owner, path, "std:sql", **plain).body == b"n\n3\n"
    deadline = {"X-Storlet-Limit-Timeout-Total": "1s"}
    answer = owner.get(path, run_headers("std:sql", endless) | deadline)
    assert answer.error == "storlet.timeout.total", answer
    # The engine does not count the memory of such a text; the limit of the storlet does.
    bomb = owner.get(path, run_headers("std:sql", {"query": "SELECT repeat('x', 1 << 30) AS r"}))
    assert bomb.error == "storlet.limit.memory", bomb
    assert got(owner, path, "std:sql", **plain).body == b"n\n3\n"


def pictured(size: tuple[int, int], kind: str = "JPEG", orientation: int = 1) -> bytes:
    """A picture: red on the left, blue on the right."""
    image = PIL.Image.new("RGB", size, "red")
    image.paste("blue", (size[0] // 2, 0, *size))
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    image.save(file, kind, exif=exif)
    return file.getvalue()


def seen(answer: Answer) -> tuple[str | None, tuple[int, int]]:
    """The format and the size of the picture in a response."""
    with PIL.Image.open(io.BytesIO(answer.body)) as image:
        image.load()
        assert answer.headers["Content-Type"] == f"image/{str(image.format).lower()}"
        assert answer.meta("Width") == str(image.width)
        return image.format, image.size


def test_image(owner: Client, container: str) -> None:
    path = f"{container}/photo.jpg"
    photo = pictured((1200, 900), orientation=6)
    assert owner.put(path, photo, {"X-Object-Meta-Colour": "red"}).status == 201
    given = {"width": "90", "height": "60"}
    assert seen(got(owner, path, "std:image", **given)) == ("JPEG", (45, 60))
    assert seen(stored(owner, f"{container}/put", "std:image", photo, **given)) == (
        "JPEG",
        (45, 60),
    )
    assert seen(got(owner, path, "std:image", **given, format="webp")) == ("WEBP", (45, 60))
    part = {"crop-width": "30", "crop-height": "20", "format": "png"}
    copy = copied(owner, path, f"{container}/part", "std:image", **part)
    assert (seen(copy), copy.meta("Colour")) == (("PNG", (30, 20)), "red")
    # The top of the upright picture is the left side of the stored one.
    with PIL.Image.open(io.BytesIO(copy.body)) as image:
        assert image.getpixel((15, 10)) == pytest.approx((254, 0, 0), abs=3)


def test_a_rule_makes_pictures_of_uploads_smaller(ward: Ward) -> None:
    ward.rule(IMAGE_RULE)
    assert ward.physician.put("patients/scan.png", pictured((300, 200), "PNG")).status == 201
    assert seen(ward.admin.get("patients/scan.png")) == ("JPEG", (64, 43))
    refused = ward.physician.put("patients/notes.txt", TEXT)
    assert (refused.status, refused.error) == (422, "storlet.failed")
    assert ward.admin.get("patients/notes.txt").status == 404


#: A PNG of 138 bytes whose header has 3600 million pixels.
BOMB = (CHECKOUT / "storlets/std/image/tests/bomb.png").read_bytes()


@pytest.mark.parametrize(
    ("data", "parameters", "text"),
    [
        (BOMB, {"width": "9"}, "60000x60000 pixels, and 3600 million must be decoded"),
        (pictured((400, 300))[:-99], {}, "the object is damaged, or no JPEG"),
        (pictured((40, 30)), {"crop-left": "9", "fit": "cover"}, "fit=cover: requires width"),
    ],
    ids=["bomb", "cut", "conflict"],
)
def test_a_refused_picture_leaves_nothing(
    owner: Client, container: str, data: bytes, parameters: dict[str, str], text: str
) -> None:
    path = f"{container}/picture"
    refused = owner.put(path, data, run_headers("std:image", parameters))
    assert (refused.status, refused.error) == (422, "storlet.failed"), refused
    assert text in refused.text
    assert owner.get(path).status == 404


def zipped(names: str = "ab") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, TEXT)
    return file.getvalue()


def test_archive(owner: Client, container: str) -> None:
    path = f"{container}/archive.zip"
    assert owner.put(path, zipped()).status == 201
    answer = got(owner, path, "std:archive")
    assert [json.loads(line)["name"] for line in answer.body.splitlines()] == ["a", "b"]
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    given = {"do": "take", "member": "b"}
    assert got(owner, path, "std:archive", **given).body == TEXT
    assert copied(owner, path, f"{container}/b", "std:archive", **given).body == TEXT
    assert owner.put(path, zipped()[:-30]).status == 201
    refused = owner.get(path, run_headers("std:archive", given))
    assert refused.error == "storlet.failed"
    assert "the archive is not valid" in refused.text


def test_archive_pack(owner: Client, container: str) -> None:
    members = {"notes/a": TEXT, f"notes/{HEBREW}": b"x", "notes/sub/": b""}
    for name, body in (members | {"other": b"y"}).items():
        assert owner.put(f"{container}/{name}", body).status == 201
    given = {"container": container, "prefix": "notes/"}
    for form, opened in (("zip", unzipped), ("tar", untarred)):
        archive = stored(
            owner, f"{container}/packed", "std:archive-pack", b"", **given, format=form
        )
        assert opened(archive.body) == members, archive
    refused = owner.put(f"{container}/none", b"x", run_headers("std:archive-pack", given))
    assert (refused.status, "the input is not empty" in refused.text) == (422, True)
    assert owner.get(f"{container}/none").status == 404


def test_fixity_of_a_bag(owner: Client, container: str) -> None:
    payload = {"data/text": TEXT, f"data/{HEBREW}": b"x"}
    manifest = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in payload.items()
    )
    declared = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
    bag = payload | {"bagit.txt": declared, "manifest-sha256.txt": manifest.encode()}
    for name, body in bag.items():
        assert owner.put(f"{container}/bag/{name}", body).status == 201
    given = {"container": container, "prefix": "bag"}
    declaration = f"{container}/bag/bagit.txt"

    def report_of(bag: dict[str, str]) -> dict[str, Any]:
        answer = owner.get(declaration, run_headers("std:fixity-bag", bag))
        assert (answer.status, answer.headers["X-Storlet-Ran-On"]) == (200, "proxy"), answer
        report: dict[str, Any] = json.loads(answer.body)
        return report

    report = report_of(given)
    size = sum(map(len, payload.values()))
    assert (report["valid"], report["objects"], report["bytes"]) == (True, 2, size), report
    assert owner.put(f"{container}/bag/data/text", b"other").status == 201
    report = report_of(given)
    assert [each["path"] for each in report["wrong"]] == ["data/text"], report
    headers = run_headers("std:fixity-bag", given | {"mode": "fail"})
    failed = owner.get(declaration, headers)
    assert (failed.status, "'data/text': sha256 is" in failed.text) == (422, True), failed


def unzipped(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def untarred(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as file:
        contents = {member.name: file.extractfile(member) for member in file}
        return {
            name + "/" * (data is None): b"" if data is None else data.read()
            for name, data in contents.items()
        }


@pytest.mark.parametrize(
    ("storlet", "parameters"), [("std:xor", {"key": "5a0f01"}), ("std:bitrev", {})]
)
def test_filters_that_undo_themselves(
    owner: Client, container: str, text: str, storlet: str, parameters: dict[str, str]
) -> None:
    once = got(owner, text, storlet, **parameters)
    assert once.body != TEXT
    assert len(once.body) == len(TEXT)
    path = f"{container}/once"
    assert stored(owner, path, storlet, TEXT, **parameters).body == once.body
    twice = copied(owner, path, f"{container}/twice", storlet, **parameters)
    assert twice.body == TEXT


def test_delay(owner: Client, container: str, text: str) -> None:
    given = {"latency-ms": "300", "cpu-ms": "50"}
    began = time.monotonic()
    answer = got(owner, text, "std:delay", **given)
    assert time.monotonic() - began >= 0.35
    assert (answer.body, answer.meta("Colour")) == (TEXT, "red")
    assert stored(owner, f"{container}/put", "std:delay", TEXT, **given).body == TEXT
    assert copied(owner, text, f"{container}/copy", "std:delay", **given).body == TEXT


def blocks_of(language: str) -> list[str]:
    """The code blocks of the users' page."""
    pattern = rf"^\.\. code-block:: {language}\n\n((?:   .*\n|\n)+)"
    found = re.findall(pattern, PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [block.replace("\n   ", "\n").removeprefix("   ") for block in found]


def test_each_example_of_the_page_runs(ward: Ward, tmp_path: Path) -> None:
    # Rules of other tests are for other containers, and its workers are running.
    client = ward.admin
    assert client.put("samples").status == 201
    sample = (CHECKOUT / "storlets/csv_filter/input.csv").read_bytes()
    assert client.put("samples/input.csv", sample).status == 201
    (tmp_path / "photo.tiff").write_bytes(b"II*\0")
    (tmp_path / "weather.parquet").write_bytes(PARQUET.read_bytes())
    (tmp_path / "scan.dcm").write_bytes(SCAN.read_bytes())
    (tmp_path / "photo.jpg").write_bytes(pictured((1200, 900)))
    (tmp_path / "map.tiff").write_bytes(pictured((64, 64), "TIFF"))
    environment = {"PATH": "/usr/bin:/bin", "TOKEN": client.token, "URL": client.storage_url}
    commands = blocks_of("bash")
    assert len(commands) == 31
    for command in commands:
        done = subprocess.run(
            ["/bin/bash", "-c", CURL + command],
            cwd=tmp_path, env=environment, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout!r}\n{done.stderr!r}"
        assert done.stdout
    assert client.get("samples/photo.tiff").body == b"II*\0"
    for rules in blocks_of("yaml"):
        answer = client.put("storlet_rules/rules.yaml", rules.encode())
        assert answer.status == 201, answer


def test_a_compressed_object_is_searched_in_a_sequence(owner: Client, container: str) -> None:
    path = f"{container}/text.xz"
    assert owner.put(path, lzma.compress(TEXT)).status == 201
    steps = ["std:decompress", {"storlet": "std:grep", "parameters": {"pattern": "last"}}]
    answer = owner.get(path, run_headers("std:sequence", {"steps": json.dumps(steps)}))
    assert (answer.status, answer.body) == (200, b"the last line\n"), answer


@pytest.fixture(scope="module")
def large(owner: Client) -> str:
    """A container with two objects, each of nearly the size of the limit of memory."""
    container = unique("large")
    assert owner.put(container).status == 201
    lines = b"".join(b"line %d of the object\n" % number for number in range(50_000))
    assert owner.put(f"{container}/many lines", lines * 25).status == 201
    # As many bytes: filters of bytes and of lines hold none of them.
    lines = b"".join(
        b"line %d of the object%s\n" % (number, b"." * 220) for number in range(50_000)
    )
    assert owner.put(f"{container}/text", lines * 2 + lines[: len(lines) // 2]).status == 201
    return container


@pytest.mark.parametrize(
    ("storlet", "parameters"),
    [
        ("std:fixity", {"algorithms": "md5,sha1,sha256,sha512,blake2b,blake3,crc32,crc32c"}),
        ("std:compress", {"format": "gzip", "policy": "fast"}),
        ("std:grep", {"pattern": "line 4+ of", "count": "true"}),
        ("std:grep", {"pattern": "line", "line-numbers": "true"}),
        ("std:text", {"do": "uniq"}),
        ("std:text", {"do": "tail", "count": "1000"}),
        ("std:text", {"do": "to-utf8", "charset": "latin-1"}),
        ("std:xor", {"key": "0123"}),
        (
            "std:aggregate",
            {
                "column": "2",
                "header": "false",
                "delimiter": "space",
                "distinct": "true",
                "percentiles": "50",
            },
        ),
    ],
)
def test_low_limits_are_enough_for_a_large_object(
    owner: Client, large: str, storlet: str, parameters: dict[str, str]
) -> None:
    limits = {"X-Storlet-Limit-Memory": "32M", "X-Storlet-Limit-Processes": "4"}
    # An aggregate holds something of each line.
    path = f"{large}/{'many lines' if storlet == 'std:aggregate' else 'text'}"
    answer = owner.get(path, run_headers(storlet, parameters) | limits)
    assert (answer.status, answer.is_broken) == (200, False), answer
    assert answer.size > 0


def put_ec(owner: Client, container: str, body: bytes) -> str:
    """An object in a container with erasure coding."""
    erasure_coded = f"{container}-ec"
    assert owner.put(erasure_coded, headers={"X-Storage-Policy": "ec21"}).status == 201
    assert owner.put(f"{erasure_coded}/object", body).status == 201
    return f"{erasure_coded}/object"


def put_slo(owner: Client, container: str, body: bytes) -> str:
    """A large object of two segments."""
    half = len(body) // 2
    for name, part in (("1", body[:half]), ("2", body[half:])):
        assert owner.put(f"{container}/part{name}", part).status == 201
    manifest = json.dumps([{"path": f"/{container}/part{name}"} for name in "12"]).encode()
    answer = owner.put(f"{container}/slo", manifest, query="multipart-manifest=put")
    assert answer.status == 201, answer
    return f"{container}/slo"


@pytest.mark.parametrize("put", [put_ec, put_slo])
def test_other_kinds_of_objects(
    owner: Client, container: str, put: Callable[[Client, str, bytes], str]
) -> None:
    path = put(owner, container, TEXT)

    def run(storlet: str, **parameters: str) -> bytes:
        answer = owner.get(path, run_headers(storlet, parameters))
        assert (answer.status, answer.is_broken) == (200, False), answer
        return answer.body

    sha256 = hashlib.sha256(TEXT).hexdigest()
    assert json.loads(run("std:fixity"))["digests"] == {"sha256": sha256}
    assert gzip.decompress(run("std:compress")) == TEXT
    assert run("std:grep", pattern="l[a]st") == b"the last line\n"
    assert run("std:text", do="tail", count="1") == b"the last line\n"
    aggregate = run("std:aggregate", column="the first line", type="text")
    assert json.loads(aggregate)["count"] == 2002
    assert run("std:sql", query="SELECT count(*) AS n FROM input") == b"n\n2002\n"
    assert run("std:bitrev").translate(REVERSED) == TEXT


@pytest.mark.parametrize("put", [put_ec, put_slo])
def test_parquet_of_other_kinds(
    owner: Client, container: str, put: Callable[[Client, str, bytes], str]
) -> None:
    path = put(owner, container, PARQUET.read_bytes())
    query = {"query": "SELECT count(*) AS n, max(temperature) AS t FROM input"}
    answer = owner.get(path, run_headers("std:sql-parquet", query))
    assert (answer.status, answer.body) == (200, b"n,t\n9,26.8\n"), answer


#: More than the first MiB, from which the types are inferred, and the MiB before a part.  Few rows
#: for its size: the reads of the parts are tested, and not the speed of a query.
ROWS = 150_000
TABLE = b"id,name\n" + b"".join(b'%d,"name, %d%s"\n' % (n, n % 97, b"." * 56) for n in range(ROWS))
IDS = {"query": "SELECT min(id) AS a, max(id) AS b, count(*) AS n FROM input"}


def put_plain(owner: Client, container: str, body: bytes) -> str:
    assert owner.put(f"{container}/plain", body).status == 201
    return f"{container}/plain"


@pytest.mark.parametrize(
    # Objects of many parts run at the proxy in any case.
    ("put", "where"),
    [(put_plain, "object"), (put_plain, "proxy"), (put_ec, "object"), (put_slo, "object")],
)
def test_parts_of_a_csv_have_each_row_once(
    owner: Client, container: str, put: Callable[[Client, str, bytes], str], where: str
) -> None:
    path = put(owner, container, TABLE)
    edges = [0, 5, len(TABLE) // 3, len(TABLE) // 2, len(TABLE)]
    rows, reads = [], []
    for first, end in itertools.pairwise(edges):
        headers = run_headers("std:sql-part", {**IDS, "scan-range": f"bytes={first}-{end - 1}"})
        headers |= {"X-Storlet-Run-On-Proxy": ""} if where == "proxy" else {}
        answer = owner.get(path, headers)
        assert (answer.status, answer.is_broken) == (200, False), answer
        at_node = where == "object" and put is put_plain
        assert answer.headers["X-Storlet-Ran-On"] == ("object" if at_node else "proxy")
        rows.append(answer.body.split()[1].decode().split(","))
        # It is not known where the answer begins before the end of the run.
        usage = answer.headers["X-Storlet-Usage"] or "in=0"
        read = int(re.findall(r"in=(\d+)", usage)[0])
        reads.append(read)
        # The head, the MiB before, the part, and what the reader gets ahead.
        assert read <= (1 << 20) * 2 + end - first + (2 << 20)
    assert any(reads)
    assert rows[0] == ["", "", "0"]
    spans = [(int(low), int(high), int(count)) for low, high, count in rows[1:]]
    assert [low for low, _, _ in spans] == [0, spans[0][1] + 1, spans[1][1] + 1]
    assert spans[-1][1] == ROWS - 1
    assert all(count == high - low + 1 for low, high, count in spans)


@pytest.mark.parametrize("put", [put_plain, put_ec, put_slo])
def test_a_query_over_the_parts_of_one_object(
    owner: Client, container: str, put: Callable[[Client, str, bytes], str]
) -> None:
    path = put(owner, container, TABLE)
    query = "SELECT name, count(*) AS n, avg(id) AS m FROM input GROUP BY name ORDER BY name"
    document = {
        "objects": [f"/{path}"],
        "split": {"storlet": "std:sql-part", "parameters": {"query": query, "output": "partial"}},
        "parts": 5,
        "merge": "std:sql-merge",
        # As above: fewer workers.
        "concurrency": 2,
    }
    headers = {"X-Run-Storlet": "std:distributed"}
    answer = owner.request("POST", "", headers=headers, body=json.dumps(document).encode())
    assert answer.status == 200, answer
    whole = owner.get(path, run_headers("std:sql", {"query": query}))
    assert (whole.status, answer.body) == (200, whole.body)
    older = run_headers("std:sql-part", {**IDS, "scan-range": "bytes=0-"})
    assert owner.get(path, {**older, "If-Match": '"other"'}).status == 412
    etag = owner.head(path).headers["Etag"].strip('"')
    assert owner.get(path, {**older, "If-Match": f'"{etag}"'}).status == 200


def test_line_ends_within_quotes_are_no_ends_of_parts(owner: Client, container: str) -> None:
    path = f"{container}/quoted.csv"
    assert owner.put(path, b'id,note\n1,"one\n2,two"\n3,three\n').status == 201
    for text in ("bytes=0-9", "bytes=10-14", "bytes=15-"):
        answer = owner.get(path, run_headers("std:sql-part", {**IDS, "scan-range": text}))
        assert (answer.status, answer.error) == (422, "storlet.failed"), answer
        assert "a value has a line end within quotes" in answer.text
        assert "std:sql" in answer.text


@pytest.mark.parametrize("put", [put_ec, put_slo])
def test_arrow_of_other_kinds(
    owner: Client, container: str, put: Callable[[Client, str, bytes], str]
) -> None:
    path = put(owner, container, ARROW.read_bytes())
    answer = owner.get(path, run_headers("std:sql", ARROW_QUERY))
    assert (answer.status, answer.body) == (200, ARROW_SHOWN), answer


@pytest.mark.parametrize("put", [put_ec, put_slo])
def test_pictures_of_other_kinds(
    owner: Client, container: str, put: Callable[[Client, str, bytes], str]
) -> None:
    path = put(owner, container, pictured((64, 48), "TIFF"))
    for storlet in ("std:image", "std:image-region"):
        answer = owner.get(path, run_headers(storlet, {"width": "32"}))
        assert (answer.status, seen(answer)) == (200, ("PNG", (32, 24))), answer


@pytest.mark.parametrize("put", [put_ec, put_slo])
def test_archives_of_other_kinds(
    owner: Client, container: str, put: Callable[[Client, str, bytes], str]
) -> None:
    path = put(owner, container, zipped())
    answer = owner.get(path, run_headers("std:archive", {"do": "take", "member": "b"}))
    assert (answer.status, answer.is_broken, answer.body) == (200, False, TEXT), answer


ENCRYPTED_ROWS = """\
version: 1
rules:
- name: encrypt
  when: {method: PUT, container: patients}
  run: {storlet: "std:encrypt", parameters: {key: ward-key}}
- name: decrypt
  when: {method: GET, container: patients, user: "test2:tester2"}
  run: {storlet: "std:decrypt", parameters: {key: ward-key}}
"""


def set_secret(owner: Client, name: str, value: bytes) -> None:
    answer = owner.request("POST", "", query=f"storlet-secrets={name}", body=value)
    assert answer.status in (201, 204), answer


def test_encrypt_and_decrypt(owner: Client, container: str, text: str) -> None:
    set_secret(owner, "backup-key", bytes(range(32)))
    sealed, key = f"{container}/sealed", {"key": "backup-key"}
    large = TEXT * 200
    answer = stored(owner, sealed, "std:encrypt", large, **key)
    assert answer.meta("Encryption") == "AES-256-GCM"
    assert b"the first line" not in answer.body
    read = owner.get(sealed, run_headers("std:decrypt", key))
    assert (read.status, read.is_broken, read.body) == (200, False, large)
    assert (read.headers["X-Storlet-Ran-On"], read.meta("Encryption")) == ("proxy", None)
    # A change of a later chunk breaks the response off, and nothing is stored.
    changed = bytearray(answer.body)
    changed[-100] ^= 1
    wrong, back = f"{container}/wrong", f"{container}/back"
    assert owner.put(wrong, bytes(changed)).status == 201
    broken = owner.get(wrong, run_headers("std:decrypt", key))
    assert broken.is_broken
    assert large.startswith(broken.body)
    refused = owner.put(back, b"", run_headers("std:decrypt", key) | {"X-Copy-From": wrong})
    assert (refused.status, refused.error) == (422, "storlet.failed")
    assert owner.get(back).status == 404
    assert copied(owner, sealed, back, "std:decrypt", **key).body == large
    # Another key, and none.
    set_secret(owner, "backup-key", bytes(range(1, 33)))
    refused = owner.get(sealed, run_headers("std:decrypt", key))
    assert (refused.status, "encrypted with another secret" in refused.text) == (422, True)
    assert owner.request("DELETE", "", query="storlet-secrets=backup-key").status == 204
    refused = owner.get(sealed, run_headers("std:decrypt", key))
    assert (refused.status, refused.error) == (422, "storlet.secret")


def test_a_pair_of_rules_stores_objects_encrypted(ward: Ward) -> None:
    ward.rule("version: 1\nrules: []\n")
    set_secret(ward.admin, "ward-key", bytes(range(32)))
    ward.rule(ENCRYPTED_ROWS)
    assert ward.physician.put("patients/sealed", TEXT).status == 201
    kept = ward.physician.get("patients/sealed")
    assert kept.body.startswith(b"STORLENC\x01")
    assert ward.researcher.get("patients/sealed").body == TEXT
    # A reader of the encrypted object cannot name its key.
    refused = ward.physician.get("patients/sealed", run_headers("std:decrypt", {"key": "ward-key"}))
    assert (refused.status, refused.error) == (403, "access.denied")


def test_deidentify(owner: Client, container: str) -> None:
    set_secret(owner, "mac-key", bytes(range(32)))
    table, receipt = f"{container}/table.csv", f"{container}/receipt.json"
    assert owner.put(table, b"id,name\n17,Dana\n18,Levi\n").status == 201
    given = {"columns": '{"id": "hmac", "name": "drop"}', "key": "mac-key"}
    tokens = [
        hmac.new(bytes(range(32)), text, "sha256").hexdigest()[:32] for text in (b"17", b"18")
    ]
    run = run_headers("std:deidentify", given)
    answer = owner.get(table, run | {"X-Storlet-Output": f"/{receipt}"})
    assert (answer.status, answer.text.split()) == (200, ["id", *tokens])
    found = json.loads(owner.get(receipt).body)
    assert (found["records"], found["columns"]["name"]) == (2, {"action": "drop", "changed": 2})
    run = run_headers("std:deidentify", {"columns": '{"id": "drop"}'})
    refused = owner.get(table, run)
    assert (refused.status, refused.error) == (422, "storlet.failed")
    assert "columns without an action, by their numbers: 2" in refused.text


def test_a_rule_finds_values_in_free_text(owner: Client, container: str, ward: Ward) -> None:
    text = b"Dana Levi, dana@example.com, 4111 1111 1111 1111\r\n" * 20_000
    found = b"Dana Levi, [EMAIL], [CARD]\r\n" * 20_000
    # In a rule, literal braces are doubled.
    given = {"format": "text", "columns": '{{"line": "find:email,card"}}'}
    answer = ruled(ward, "std:deidentify", text, **given)
    assert (answer.status, answer.is_broken, answer.body) == (200, False, found)
    refused = ruled(ward, "std:deidentify", text, **{**given, "columns": '{{"line": "find:name"}}'})
    assert (refused.status, refused.error) == (422, "storlet.failed")
    assert b"dana@" not in refused.body
    # The receipt of a run that a request begins.
    path, receipt = f"{container}/letter", f"{container}/receipt.json"
    assert owner.put(path, text).status == 201
    run = run_headers("std:deidentify", {**given, "columns": '{"line": "find:email,card"}'})
    answer = owner.get(path, run | {"X-Storlet-Output": f"/{receipt}"})
    assert answer.body == found
    counts = json.loads(owner.get(receipt).body)["columns"]["line"]
    kinds = {"email": 20_000, "card": 20_000}
    assert counts == {"action": "find", "changed": 20_000, "found": kinds}


def test_kinds_of_presidio(owner: Client, container: str) -> None:
    lines = b"passport number 912803456\norder 912803456\ncall dana@example.com\n"
    path, receipt = f"{container}/letter", f"{container}/receipt.json"
    assert owner.put(path, lines * 100).status == 201
    given = {"format": "text", "columns": '{"line": "find"}', "presidio": "US_PASSPORT,UK_NHS"}
    run = run_headers("std:deidentify", given)
    answer = owner.get(path, run | {"X-Storlet-Output": f"/{receipt}"})
    found = b"passport number [US_PASSPORT]\norder 912803456\ncall [EMAIL]\n"
    assert (answer.status, answer.body) == (200, found * 100)
    counts = json.loads(owner.get(receipt).body)["columns"]["line"]["found"]
    assert (counts["US_PASSPORT"], counts["UK_NHS"], counts["email"]) == (100, 0, 100)


DICOM_TESTS = CHECKOUT / "storlets/std/deidentify-dicom/tests"
SCAN = DICOM_TESTS / "ct.dcm"
DICOM_KEY = b"a value for tests, no random bytes"


def test_deidentify_dicom(owner: Client, container: str, ward: Ward) -> None:
    set_secret(owner, "mac-key", DICOM_KEY)
    set_secret(ward.admin, "ward-key", DICOM_KEY)
    scan, wanted = SCAN.read_bytes(), (DICOM_TESTS / "basic.dcm").read_bytes()
    path, receipt = f"{container}/scan.dcm", f"{container}/receipt.json"
    assert owner.put(path, scan).status == 201
    given = {"key": "mac-key"}
    run = run_headers("std:deidentify-dicom", given)
    answer = owner.get(path, run | {"X-Storlet-Output": f"/{receipt}"})
    assert (answer.status, answer.body) == (200, wanted), answer
    assert answer.headers["Content-Type"] == "application/dicom"
    found = json.loads(owner.get(receipt).body)
    assert found["others"]["removed"] == {"private": 2}
    assert found["attributes"]["(0008,1155) ReferencedSOPInstanceUID"]["count"] == 1
    assert "Levi" not in json.dumps(found)
    storlet = "std:deidentify-dicom"
    assert stored(owner, f"{container}/put", storlet, scan, **given).body == wanted
    assert copied(owner, path, f"{container}/copy", storlet, **given).body == wanted
    assert ruled(ward, storlet, scan, key="ward-key").body == wanted
    # The pixels are cut: nothing is stored, and a GET breaks off.
    refused = owner.put(f"{container}/cut", scan[:-1], run)
    assert (refused.status, refused.error) == (422, "storlet.failed")
    assert "the object is cut: 1 bytes are missing" in refused.text
    assert owner.get(f"{container}/cut").status == 404
    # An object with text in its pixels is refused before any byte.
    capture = (DICOM_TESTS / "capture.dcm").read_bytes()
    refused = ruled(ward, storlet, capture, key="ward-key")
    assert (refused.status, refused.error) == (422, "storlet.failed")
    assert b"Levi" not in refused.body
    assert owner.put(path, capture).status == 201
    assert "pixels-are-clean=true" in owner.get(path, run).text


@pytest.mark.parametrize("put", [put_ec, put_slo])
def test_dicom_of_other_kinds(
    owner: Client, container: str, put: Callable[[Client, str, bytes], str]
) -> None:
    set_secret(owner, "mac-key", DICOM_KEY)
    path = put(owner, container, SCAN.read_bytes())
    answer = owner.get(path, run_headers("std:deidentify-dicom", {"key": "mac-key"}))
    assert (answer.status, answer.is_broken) == (200, False), answer
    assert answer.body == (DICOM_TESTS / "basic.dcm").read_bytes()
