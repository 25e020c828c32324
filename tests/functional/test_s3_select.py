"""``SelectObjectContent`` with boto3, unaltered, on a cluster."""

from __future__ import annotations

import gzip
import hashlib
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import boto3
import duckdb
import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.eventstream import EventStreamBuffer
from botocore.exceptions import ClientError, EventStreamError

from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.storlets import Tool

OWNER, STRANGER = "test:tester", "test:tester3"
CSV: dict[str, Any] = {"CSV": {"FileHeaderInfo": "USE"}}
LINES: dict[str, Any] = {"JSON": {"Type": "LINES"}}
PARQUET: dict[str, Any] = {"Parquet": {}}
OUT: dict[str, Any] = {"CSV": {}}
PEOPLE = 'name,age\nAda,36\nZoë,85\n"Lee, Jo",7\n'.encode()
RULE = """\
version: 1
rules:
- name: hide
  when: {{method: GET, container: "{container}"}}
  mandatory: true
  explicit: {explicit}
  run: {{storlet: "{storlet}", parameters: {{do: upper}}}}
"""


def client_of(cluster: Cluster, user: str = OWNER) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=cluster.auth_url.rsplit("/auth", 1)[0],
        aws_access_key_id=user,
        aws_secret_access_key=cluster.description["users"][user],
        region_name="us-east-1",
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
        ),
    )


@pytest.fixture(scope="module")
def s3(cluster: Cluster) -> Any:
    return client_of(cluster)


@pytest.fixture
def bucket(owner: Client) -> Iterator[str]:
    """A container whose name is one of S3's, with one object."""
    name = unique("select").replace("_", "-")
    assert owner.put(name).status == 201
    assert owner.put(f"{name}/people.csv", PEOPLE).status == 201
    yield name
    owner.delete("storlet_rules/rules.yaml")


def select(s3: Any, bucket: str, query: str, source: Any = CSV, **more: Any) -> Any:
    given = {"Key": "people.csv", "OutputSerialization": OUT} | more
    return s3.select_object_content(
        Bucket=bucket,
        Expression=query,
        ExpressionType="SQL",
        InputSerialization=source,
        **given,
    )["Payload"]


def records(events: Any) -> tuple[str, dict[str, int]]:
    """The records of a complete result, and its stats."""
    found, stats, last = b"", {}, ""
    for event in events:
        ((last, value),) = event.items()
        if last == "Records":
            found += value["Payload"]
        elif last == "Stats":
            stats = value["Details"]
    assert last == "End"
    return found.decode(), stats


def refusal(call: Any, *arguments: Any, **more: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as caught:
        call(*arguments, **more)
    answer = caught.value.response
    assert answer["Error"]["Message"]
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def test_csv_and_json_lines(s3: Any, owner: Client, bucket: str) -> None:
    query = "SELECT s.name FROM S3Object s WHERE CAST(s.age AS INT) < 80"
    found, stats = records(select(s3, bucket, query))
    assert found == 'Ada\n"Lee, Jo"\n'
    size = len(PEOPLE)
    assert stats == {"BytesScanned": size, "BytesProcessed": size, "BytesReturned": len(found)}
    lines = b'{"a": {"b": 1}}\n{"a": {"b": 2}}\n' * 20_000
    packed = gzip.compress(lines)
    assert owner.put(f"{bucket}/lines.gz", packed).status == 201
    found, stats = records(
        select(
            s3,
            bucket,
            "SELECT SUM(s.a.b) AS total FROM S3Object[*] s",
            LINES | {"CompressionType": "GZIP"},
            Key="lines.gz",
            OutputSerialization={"JSON": {}},
            RequestProgress={"Enabled": True},
        )
    )
    assert found == '{"total":60000}\n'
    assert (stats["BytesScanned"], stats["BytesProcessed"]) == (len(packed), len(lines))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Parquet in two groups of rows; the column ``id`` has a small part of the bytes."""
    path = tmp_path_factory.mktemp("parquet") / "wide.parquet"
    rows = "range AS id, range::DECIMAL(9, 2) + 0.25::DECIMAL(9, 2) AS d, md5(id::VARCHAR) AS text"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {rows}, [range, NULL] AS pair FROM range(60000))"  # noqa: S608
            f" TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 30720)"
        )
    return path.read_bytes()


def test_of_parquet_only_the_needed_columns_are_read(
    s3: Any, owner: Client, bucket: str, wide: bytes
) -> None:
    assert owner.put(f"{bucket}/wide.parquet", wide).status == 201
    key = {"Key": "wide.parquet"}
    found, stats = records(
        select(s3, bucket, "SELECT SUM(s.id), MAX(s.d) FROM S3Object s", PARQUET, **key)
    )
    assert found == "1799970000,59999.25\n"
    assert 0 < stats["BytesScanned"] < len(wide) // 3
    query = "SELECT s.id, s.d, s.pair FROM S3Object s WHERE s.id = 7 AND s.text LIKE '8f14e%'"
    json = {"OutputSerialization": {"JSON": {}}}
    found, _ = records(select(s3, bucket, query, PARQUET, **key, **json))
    assert found == '{"id":7,"d":7.25,"pair":[7,null]}\n'
    counts = [
        records(
            select(s3, bucket, "SELECT COUNT(*) FROM S3Object", PARQUET, **key, ScanRange=part)
        )[0]
        for part in ({"Start": 0, "End": 9}, {"Start": 10}, {"End": 10})
    ]
    assert counts == ["30720\n", "29280\n", "0\n"]


def test_parquet_in_parts_is_read_at_the_proxy_server(s3: Any, bucket: str, wide: bytes) -> None:
    key = {"Bucket": bucket, "Key": "parts.parquet"}
    upload = s3.create_multipart_upload(**key)["UploadId"]
    part = s3.upload_part(**key, UploadId=upload, PartNumber=1, Body=wide)
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    s3.complete_multipart_upload(**key, UploadId=upload, MultipartUpload=parts)
    query = "SELECT s.text FROM S3Object s WHERE s.id = 59999"
    found, stats = records(select(s3, bucket, query, PARQUET, Key="parts.parquet"))
    assert found == hashlib.md5(b"59999").hexdigest() + "\n"  # noqa: S324 - a column of the test
    assert stats["BytesScanned"] < len(wide)
    # Its ETag for S3 is not the one that Swift compares.
    whole = {"ScanRange": {"End": len(wide)}, "Key": "parts.parquet"}
    found, _ = records(select(s3, bucket, "SELECT COUNT(*) FROM S3Object", PARQUET, **whole))
    assert found == "60000\n"


def test_scan_ranges_have_each_record_once(s3: Any, owner: Client, bucket: str) -> None:
    data = b"".join(b"%d,x\n" % number for number in range(1000))
    assert owner.put(f"{bucket}/numbers.csv", data).status == 201
    plain: dict[str, Any] = {"CSV": {}}
    found = ""
    for part in ({"Start": 0, "End": 1699}, {"Start": 1700, "End": 1700}, {"Start": 1701}):
        query = "SELECT * FROM S3Object"
        events = select(s3, bucket, query, plain, Key="numbers.csv", ScanRange=part)
        found += records(events)[0]
    assert found.encode() == data
    last = select(
        s3, bucket, "SELECT * FROM S3Object", plain, Key="numbers.csv", ScanRange={"End": 12}
    )
    assert records(last)[0] == "998,x\n999,x\n"


def test_faults_have_the_codes_of_s3(s3: Any, owner: Client, bucket: str) -> None:
    for query, code in (
        ("SELEC", "ParseUnsupportedSelect"),
        ("SELECT s.size FROM S3Object s", "MissingHeaders"),
        ("SELECT CAST(s.name AS INT) FROM S3Object s", "CastFailed"),
    ):
        assert refusal(select, s3, bucket, query) == (400, code)
    everything = "SELECT * FROM S3Object"
    assert owner.put(f"{bucket}/latin.csv", b"name,place\n1,Zo\xeb\n").status == 201
    latin = refusal(select, s3, bucket, "SELECT s.place FROM S3Object s", Key="latin.csv")
    assert latin == (400, "InvalidTextEncoding")
    assert refusal(select, s3, bucket, everything, Key="none") == (404, "NoSuchKey")
    assert refusal(select, s3, bucket, everything, PARQUET) == (400, "ParquetParsingError")


def test_a_result_that_is_cut_is_an_error_and_no_end(s3: Any, owner: Client, bucket: str) -> None:
    data = b"".join(b"%d\n" % number for number in range(300_000)) + b"x\n"
    assert owner.put(f"{bucket}/late.csv", data).status == 201
    events = select(
        s3, bucket, "SELECT CAST(s._1 AS INT) FROM S3Object s", {"CSV": {}}, Key="late.csv"
    )
    kinds = []
    with pytest.raises(EventStreamError) as caught:
        kinds += [kind for event in events for kind in event]
    assert caught.value.response["Error"]["Code"] == "CastFailed"
    assert caught.value.response["Error"]["Message"]
    assert "End" not in kinds


def test_a_presigned_url_selects_from_its_object_only(
    cluster: Cluster, s3: Any, bucket: str
) -> None:
    sent: list[bytes] = []
    s3.meta.events.register("before-sign.s3", lambda request, **_: sent.append(request.data))
    assert records(select(s3, bucket, "SELECT COUNT(*) FROM S3Object"))[0] == "3\n"
    # botocore presigns no operation with a body of XML, but has the signature.
    plain = f"{s3.meta.endpoint_url}/{bucket}/people.csv?select=&select-type=2"
    presigned = AWSRequest("POST", url=plain)
    key = Credentials(OWNER, cluster.description["users"][OWNER])
    S3SigV4QueryAuth(key, "s3", "us-east-1").add_auth(presigned)
    answer = posted(presigned.url, sent[0])
    assert answer[0] == 200
    buffer = EventStreamBuffer()
    buffer.add_data(answer[1])
    assert next(iter(buffer)).payload == b"3\n"
    other = posted(presigned.url.replace("people", "other"), sent[0])
    assert other[0] == 403, other
    assert b"<Code>SignatureDoesNotMatch</Code>" in other[1]


def posted(url: str, body: bytes) -> tuple[int, bytes]:
    request = urllib.request.Request(url, body, {"Content-Type": ""})  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def test_a_caller_that_may_not_read_the_object_may_not_select(
    cluster: Cluster, owner: Client, bucket: str
) -> None:
    stranger = client_of(cluster, STRANGER)
    query = "SELECT * FROM S3Object"
    assert refusal(select, stranger, bucket, query) == (403, "AccessDenied")
    assert owner.post(bucket, {"X-Container-Read": STRANGER}).status == 204
    assert "Ada" in records(select(stranger, bucket, query))[0]
    assert refusal(select, stranger, bucket, "SELECT x FROM") == (400, "InvalidDataSource")


def test_a_covered_object_gives_the_output_of_its_rule_or_is_refused(
    s3: Any, owner: Client, any_tool: Tool, bucket: str
) -> None:
    owner.put("storlet_rules")
    for explicit in ("refuse", "after"):
        rule = RULE.format(container=bucket, storlet=any_tool.storlet, explicit=explicit)
        loaded = owner.put("storlet_rules/rules.yaml", rule.encode())
        assert loaded.status == 201, loaded.text
        last = {"ScanRange": {"End": 5}}
        if explicit == "refuse":
            for more in ({}, last):
                refused = refusal(select, s3, bucket, "SELECT * FROM S3Object", **more)
                assert refused == (403, "AccessDenied")
            refused = refusal(select, s3, bucket, "SELECT * FROM S3Object", PARQUET)
            assert refused == (403, "AccessDenied")
    unknown = refusal(select, s3, bucket, "SELECT * FROM S3Object", **last)
    assert unknown == (400, "UnsupportedScanRangeInput")
    # The output of a rule is a stream, in which no storlet can seek.
    assert refusal(select, s3, bucket, "SELECT * FROM S3Object", PARQUET) == (400, "InvalidRequest")
    query = "SELECT * FROM S3Object s WHERE s.AGE = '36'"
    assert records(select(s3, bucket, query))[0] == "ADA,36\n"
    assert records(select(s3, bucket, "SELECT * FROM S3Object WHERE name = 'Ada'"))[0] == ""
