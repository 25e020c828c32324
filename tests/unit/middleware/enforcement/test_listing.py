"""listing.py between Swift's own middlewares: those that make a listing right of it, those that show it left of it."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import quote

import pytest
from swift.common.middleware import (
    listing_formats,
    slo,
    staticweb,
    symlink,
    tempauth,
    versioned_writes,
)
from swift.common.middleware.s3api import etree
from swift.common.middleware.s3api.s3api import ListingEtagMiddleware, S3ApiMiddleware
from swift.common.swob import Request, Response

from storlet_middleware.enforcement import listing
from storlet_middleware.enforcement.listing import Entry, filtered
from storlet_middleware.errors import BackendFailed, NodeBusy
from tests.unit.middleware.support import Body

EMPTY: Final = hashlib.md5(b"", usedforsecurity=False).hexdigest()
SECRET: Final = "5ec2e700000000000000000000000000"
DATE: Final = "2024-05-06T07:08:09.123450"
KINDS: Final = ("application/json", "application/xml", "text/xml")
SHOWN: Final = {"hash": "", "bytes": 0, "content_type": "application/octet-stream"}


def entry(name: str, **more: Any) -> dict[str, Any]:
    """As a container server lists it."""
    return {
        "name": name,
        "hash": SECRET,
        "bytes": 4711,
        "content_type": "secret/type",
        "last_modified": DATE,
    } | more


class Containers:
    """What stands right of all middlewares: listings by container, and container info."""

    def __init__(self, **listings: Any) -> None:
        self.listings = listings
        self.headers: dict[str, str] = {}
        self.status = 200
        self.bodies: list[Body] = []
        self.queries: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        parts = environ["PATH_INFO"].split("/", 4)
        if len(parts) != 4 or not parts[3]:
            status = 404 if len(parts) == 5 else 204
            return Response(status=status, request=request)(environ, start_response)
        self.queries.append(environ.get("QUERY_STRING", ""))
        key = "hidden" if parts[3].startswith("\x00") else "c"
        if key not in self.listings:
            return Response(status=404, request=request)(environ, start_response)
        listing = self.listings[key]
        body = listing if isinstance(listing, bytes) else json.dumps(listing).encode()
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "X-Container-Bytes-Used": "4711",
            "X-Container-Object-Count": "1",
            **(self.headers if key == "c" else {}),
        }
        response = Response(status=self.status, body=body, headers=headers, request=request)
        chunks = Body(response(environ, start_response))
        self.bodies.append(chunks)
        return chunks


class Asked:
    """``hides`` that keeps what it is asked."""

    def __init__(
        self, covers: Callable[[Entry], bool] = lambda entry: entry.name.startswith("secret")
    ) -> None:
        self.entries: list[Entry] = []
        self._covers = covers

    def __call__(self, entry: Entry) -> bool:
        self.entries.append(entry)
        return self._covers(entry)


def ours(app: Any, hides: Callable[[Entry], bool]) -> Any:
    """The place of the filter in a pipeline."""

    def call(environ: dict[str, Any], start_response: Any) -> Any:
        parts = environ["PATH_INFO"].split("/")
        if len(parts) != 4 or environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return app(environ, start_response)
        return filtered(app, environ, hides)(environ, start_response)

    return call


class Seat:
    """Where another application sits in each test: Swift's middlewares are made once, for they keep a logger's socket."""

    def __init__(self) -> None:
        self.app: Any = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        return self.app(environ, start_response)


@functools.cache
def seated(pipeline: Callable[[Any], Any]) -> tuple[Seat, Any]:
    seat = Seat()
    return seat, pipeline(seat)


def over(pipeline: Callable[[Any], Any], app: Any) -> Any:
    seat, whole = seated(pipeline)
    seat.app = app
    return whole


_formats = listing_formats.filter_factory({})
_web = staticweb.filter_factory({})


def _right_of_us(app: Any) -> Any:
    app = symlink.filter_factory({})(app)
    app = versioned_writes.filter_factory({}, allow_object_versioning="true")(app)
    return slo.filter_factory({})(app)


def _s3(app: Any) -> Any:
    app = tempauth.filter_factory({}, user_test_tester="testing .admin")(app)
    return S3ApiMiddleware(ListingEtagMiddleware(app), {})


def right_of_us(app: Any) -> Any:
    """``slo versioned_writes symlink`` as in a proxy's pipeline."""
    return over(_right_of_us, app)


def formats(app: Any) -> Any:
    return over(_formats, app)


def ask(app: Any, path: str = "/v1/a/c", method: str = "GET", **headers: str) -> Any:
    request = Request.blank(
        path,
        method=method,
        headers={key.replace("_", "-"): value for key, value in headers.items()},
    )
    return request.get_response(app)


def filtered_listing(listing: Any, hides: Callable[[Entry], bool], path: str = "/v1/a/c") -> Any:
    return json.loads(ask(ours(right_of_us(Containers(c=listing)), hides), path).body)


# --- entries ----------------------------------------------------------------------------------------------------------


def test_a_covered_entry_keeps_its_name_and_date_and_loses_all_else() -> None:
    asked = Asked()
    first, second = filtered_listing([entry("open"), entry("secret", more="of it")], asked)
    assert first == entry("open")
    assert second == {"name": "secret", "last_modified": DATE, **SHOWN}
    assert [(each.name, each.content_type, each.size_bytes) for each in asked.entries] == [
        ("open", "secret/type", 4711),
        ("secret", "secret/type", 4711),
    ]


def test_a_listing_with_nothing_to_hide_passes_byte_by_byte() -> None:
    swift = Containers(
        c=b'[ {"name": "open", "hash": "h", "bytes": 1, "content_type": "t", "last_modified": "d"} ]'
    )
    answer = ask(ours(swift, Asked()))
    assert answer.body == swift.listings["c"]
    assert answer.headers["Content-Length"] == str(len(swift.listings["c"]))


def test_prefixes_of_a_delimiter_listing_are_no_objects() -> None:
    asked = Asked(lambda _: True)
    assert filtered_listing([{"subdir": "secret/"}, entry("x")], asked)[0] == {"subdir": "secret/"}
    assert [each.name for each in asked.entries] == ["x"]


def test_names_are_text() -> None:
    asked = Asked(lambda _: True)
    name = 'gr\u00fc\u00df \U0001f600 \x01 "&<'
    assert filtered_listing([entry(name)], asked)[0]["name"] == name
    assert asked.entries[0].name == name


def test_a_large_object_loses_the_hash_of_its_segments() -> None:
    listing = [
        entry("secret", hash=f"{SECRET}; s3_etag={SECRET}-2; slo_etag={SECRET}"),
        entry("open", hash=f"h; slo_etag={SECRET}"),
    ]
    asked = Asked()
    hidden, shown = filtered_listing(listing, asked)
    assert hidden == {"name": "secret", "last_modified": DATE, **SHOWN}
    assert shown["slo_etag"] == f'"{SECRET}"'
    assert [each.is_large for each in asked.entries] == [True, True]


def test_a_link_tells_where_it_leads_and_nothing_of_it_when_it_is_hidden() -> None:
    near = f"{EMPTY}; symlink_target=c/o"
    target = "symlink_target=faraway/secret%20%C3%BC; symlink_target_account=b"
    far = f"{EMPTY}; {target}; symlink_target_etag={SECRET}; symlink_target_bytes=4711"
    asked = Asked(lambda entry: entry.leads_to == ("b", "faraway", "secret \u00fc"))
    hidden, shown = filtered_listing(
        [entry("l", hash=far, bytes=0), entry("m", hash=near, bytes=0)], asked
    )
    assert hidden == {"name": "l", "last_modified": DATE, **SHOWN}
    assert shown["symlink_path"] == "/v1/a/c/o"
    assert asked.entries[1].leads_to == ("a", "c", "o")
    assert asked.entries[0].unknown == {"metadata", "size", "content-type"}


@pytest.mark.parametrize("path", ["/v1/b", "v1/a/c/o", "/v1/a/c/%ff", "/v1/a/c/", ""])
def test_a_link_that_leads_nobody_knows_where_is_hidden_unasked(path: str) -> None:
    asked = Asked()
    answer = ask(ours(Containers(c=[entry("l", symlink_path=path)]), asked))
    assert json.loads(answer.body) == [{"name": "l", "last_modified": DATE, **SHOWN}]
    assert not asked.entries


def test_what_a_listing_cannot_tell_is_unknown() -> None:
    asked = Asked()
    filtered_listing([entry("o"), entry("may be a dynamic large object", bytes=0)], asked)
    assert [each.unknown for each in asked.entries] == [{"metadata"}, {"metadata", "size"}]


# --- versions ---------------------------------------------------------------------------------------------------------

NEW, OLD, GONE = "8293212345.12345", "8293212346.12345", "8293212347.12345"


def inverted(version: str) -> str:
    return f"{9999999999.99999 - float(version):016.5f}"


def versioned() -> Containers:
    """Object ``secret`` with two versions and a mark of deletion between them, ``open`` with one; ``null`` from before."""
    links = [
        entry(name, bytes=0, hash=f"{EMPTY}; symlink_target=%00versions%00c/%00{name}%00{inverted(NEW)}; "
              f"symlink_target_etag={SECRET}; symlink_target_bytes=4711")
        for name in ("open", "secret")
    ]  # fmt: skip
    marker = "application/x-deleted;swift_versions_deleted=1"
    hidden = [
        entry(f"\x00open\x00{inverted(NEW)}"),
        entry(f"\x00secret\x00{inverted(NEW)}", hash=f"{SECRET}; slo_etag={SECRET}"),
        entry(f"\x00secret\x00{inverted(OLD)}"),
        entry(f"\x00secret\x00{inverted(GONE)}", bytes=0, hash=EMPTY, content_type=marker),
    ]
    swift = Containers(c=[*links, entry("secret null")], hidden=hidden)
    swift.headers["X-Container-Sysmeta-Versions-Container"] = "%00versions%00c"
    swift.headers["X-Container-Sysmeta-Versions-Enabled"] = "True"
    return swift


def test_versions_of_a_covered_object_keep_what_names_them() -> None:
    asked = Asked()
    listing = json.loads(ask(ours(right_of_us(versioned()), asked), "/v1/a/c?versions").body)
    assert len(listing) == 5
    for item in listing:
        if item["name"] == "open":
            assert item["hash"] == SECRET
            continue
        assert SECRET not in json.dumps(item)
        assert item["bytes"] == 0
        assert item.keys() == {
            "name",
            "hash",
            "bytes",
            "content_type",
            "last_modified",
            "version_id",
            "is_latest",
        }
    kinds = {item["content_type"] for item in listing if item["name"] == "secret"}
    assert kinds == {"application/octet-stream", "application/x-deleted;swift_versions_deleted=1"}
    assert {each.version_id for each in asked.entries if each.name == "secret null"} == {"null"}
    assert len({each.version_id for each in asked.entries if each.name == "secret"}) == 3


def test_the_current_version_of_a_versioned_object_is_no_link() -> None:
    asked = Asked()
    first, second, _ = json.loads(ask(ours(right_of_us(versioned()), asked)).body)
    assert first["version_symlink"]
    assert second == {"name": "secret", "last_modified": DATE, **SHOWN}
    assert [(each.leads_to, each.size_bytes) for each in asked.entries] == [(None, 4711)] * 3


def test_only_versions_keep_the_type_of_a_mark_of_deletion() -> None:
    marker = entry("secret", content_type="application/x-deleted;swift_versions_deleted=1")
    assert filtered_listing([marker], Asked())[0]["content_type"] == "application/octet-stream"


# --- the answer -------------------------------------------------------------------------------------------------------


def test_the_answers_headers_fit_its_body() -> None:
    swift = Containers(c=[entry("secret")])
    swift.headers |= {"Etag": "e", "Content-MD5": "m", "X-Container-Meta-A": "b"}
    answer = ask(ours(swift, Asked()))
    assert answer.headers["Content-Length"] == str(len(answer.body))
    assert "Etag" not in answer.headers
    assert "Content-MD5" not in answer.headers
    assert answer.headers["X-Container-Bytes-Used"] == "4711"
    assert answer.headers["X-Container-Meta-A"] == "b"
    assert [body.is_closed for body in swift.bodies] == [True]


def test_a_head_passes() -> None:
    swift = Containers(c=[entry("secret")])
    asked = Asked()
    answer = ask(ours(swift, asked), method="HEAD")
    assert answer.headers["X-Container-Bytes-Used"] == "4711"
    assert answer.status_int == 200
    assert not asked.entries


@pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 412, 503])
def test_a_refusal_passes(status: int) -> None:
    swift = Containers(c=b"Swift's own words")
    swift.status = status
    answer = ask(ours(swift, Asked()))
    assert answer.status_int == status


def test_an_empty_answer_passes() -> None:
    swift = Containers(c=b"")
    swift.status = 204
    answer = ask(ours(swift, Asked()))
    assert (answer.status_int, answer.body) == (204, b"")


NAMELESS: Final = entry("x") | {"name": None}
BROKEN: Final = [
    b"<html>listing</html>",
    b'[{"name": "x"',
    b'[{"name": "x"}]',
    b'{"name": "x"}',
    b"[1]",
    b"[[]]",
    b"[null]",
    b'[{"prefix": "x"}]',
    b'[{"subdir": "x", "hash": "y"}]',
    b"\xff",
    b"[" * 100_000,
    json.dumps([NAMELESS]).encode(),
    json.dumps([entry("x", bytes="many")]).encode(),
    json.dumps([entry("x", bytes=None)]).encode(),
    json.dumps([entry("x", content_type=None)]).encode(),
    json.dumps([entry("x", symlink_path=5)]).encode(),
]


@pytest.mark.parametrize("body", BROKEN)
@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_understood_is_not_passed_on(kind: str, body: bytes) -> None:
    swift = Containers(c=body)
    swift.headers["Content-Type"] = kind
    with pytest.raises(BackendFailed) as caught:
        ask(ours(swift, Asked()))
    assert caught.value.status == 503
    assert [each.is_closed for each in swift.bodies] == [True]


@pytest.mark.parametrize(
    ("status", "header", "value"),
    [
        (200, "Content-Type", "text/html"),
        (200, "Content-Type", ""),
        (200, "Content-Type", "application/jsonp"),
        (200, "Content-Encoding", "gzip"),
        (206, "Content-Range", "bytes 0-1/2"),
    ],
)
def test_neither_is_an_answer_of_another_kind(status: int, header: str, value: str) -> None:
    swift = Containers(c=[entry("open")])
    swift.status = status
    swift.headers[header] = value
    with pytest.raises(BackendFailed):
        ask(ours(swift, Asked()))


def test_a_listing_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_MAX_BODY_BYTES", 100)
    swift = Containers(c=[entry("open"), entry("more")])
    with pytest.raises(BackendFailed, match="more than 100 bytes"):
        ask(ours(swift, Asked()))
    assert [each.is_closed for each in swift.bodies] == [True]


def test_a_listing_that_breaks_off_is_not_passed_on() -> None:
    def broken(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        yield b"[]"
        raise OSError("connection lost")

    with pytest.raises(BackendFailed, match="broke off"):
        ask(ours(broken, Asked()))


def test_rules_that_cannot_be_asked_give_no_listing() -> None:
    def busy(entry: Entry) -> bool:
        raise NodeBusy("no rules")

    with pytest.raises(NodeBusy):
        ask(ours(Containers(c=[entry("x")]), busy))


# --- listing_formats ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize("kind", ["xml", "json", "plain"])
def test_every_format_hides_wherever_listing_formats_stands(kind: str, is_left: bool) -> None:
    swift = right_of_us(Containers(c=[entry("a"), {"subdir": "s/"}, entry("secret \u00fc&")]))
    app = formats(ours(swift, Asked())) if is_left else ours(formats(swift), Asked())
    answer = ask(app, f"/v1/a/c?format={kind}")
    assert answer.status_int == 200
    assert answer.content_length == len(answer.body)
    text = answer.body.decode()
    assert (
        text.count(SECRET) == text.count("secret/type") == text.count("4711") == (kind != "plain")
    )
    if kind == "json":
        assert [item.get("name") for item in json.loads(text)] == ["a", None, "secret \u00fc&"]
    elif kind == "plain":
        assert text == "a\ns/\nsecret \u00fc&\n"
    else:
        root = ET.fromstring(text)  # noqa: S314 - from Swift
        assert [part.findtext("name") for part in root] == ["a", "s/", "secret \u00fc&"]
        values = {part.tag: part.text or "" for part in root[2]}
        shown = {key: str(value) for key, value in SHOWN.items()}
        assert values == {"name": "secret \u00fc&", "last_modified": DATE, **shown}
        assert text.startswith("<?xml version=")


def test_an_empty_object_in_xml_may_be_a_link_to_anywhere() -> None:
    asked = Asked()
    listing = [entry("o"), entry("l", bytes=0, hash=f"{EMPTY}; symlink_target=c/o")]
    ask(ours(formats(right_of_us(Containers(c=listing))), asked), "/v1/a/c?format=xml")
    unseen = {"metadata", "size", "content-type", "object", "container"}
    assert [each.unknown for each in asked.entries] == [{"metadata"}, unseen]


def test_xml_with_entities_is_not_passed_on() -> None:
    swift = Containers(c=b'<!DOCTYPE c [<!ENTITY a "b">]><container name="c"/>')
    swift.headers["Content-Type"] = "application/xml"
    with pytest.raises(BackendFailed):
        ask(ours(swift, Asked()))


# --- staticweb --------------------------------------------------------------------------------------------------------


def test_staticweb_shows_names_and_dates() -> None:
    swift = Containers(c=[entry("open"), {"subdir": "s/"}, entry("secret")])
    swift.headers["X-Container-Meta-Web-Listings"] = "true"
    app = over(_web, ours(right_of_us(swift), Asked()))
    environ = {"swift.authorize": lambda _: None, "REMOTE_USER": None}
    answer = Request.blank("/v1/a/c/", environ=environ).get_response(app)
    assert answer.status_int == 200
    text = answer.body.decode()
    assert "delimiter=/" in swift.queries[-1]
    assert text.count("type-secret type-type") == 1
    row = text[text.index('href="secret"') - 100 :]
    assert "4.6Ki" not in row
    assert "type-application type-octet-stream" in row
    assert '<td class="colsize">0</td>' in row
    assert '<td class="coldate">2024-05-06 07:08:09</td>' in row


# --- s3api ------------------------------------------------------------------------------------------------------------


class Cache:
    """Swift's memcache ring, always empty."""

    def get(self, key: str, *args: Any, **more: Any) -> None:
        return None

    def set(self, *args: Any, **more: Any) -> None:
        """Forget it."""


def s3(path: str, swift: Containers, hides: Callable[[Entry], bool]) -> Any:
    """A request to ``s3api tempauth ours slo ...``, signed by its rules (version 2)."""
    app = over(_s3, ours(right_of_us(swift), hides))
    resource, _, query = path.partition("?")
    signed = [
        word for word in query.split("&") if word.partition("=")[0] in ("versions", "uploadId")
    ]
    date = formatdate(time.time(), usegmt=True)
    words = f"GET\n\n\n{date}\n{resource}" + ("?" + "&".join(signed) if signed else "")
    signature = base64.b64encode(hmac.digest(b"testing", words.encode(), "sha1")).decode()
    headers = {"Date": date, "Authorization": f"AWS test:tester:{signature}"}
    request = Request.blank(path, headers=headers, environ={"swift.cache": Cache()})
    return request.get_response(app)


def elements(answer: Any, schema: str) -> Any:
    """The answer as Swift's own schema of S3 has it."""
    assert answer.status_int == 200, answer.body
    return etree.fromstring(answer.body, schema)


S3_LISTING: Final = [
    entry("open"),
    entry("secret", hash=f"{SECRET}; s3_etag={SECRET}-2; slo_etag={SECRET}"),
    {"subdir": "s/"},
]


@pytest.mark.parametrize(
    "query", ["", "?list-type=2", "?list-type=2&fetch-owner=true", "?encoding-type=url&delimiter=/"]
)
def test_s3_lists_a_covered_object_without_etag_and_size(query: str) -> None:
    root = elements(s3(f"/bucket{query}", Containers(c=S3_LISTING), Asked()), "ListBucketResult")
    first, second = root.findall("./Contents")
    assert (first.find("./ETag").text, first.find("./Size").text) == (f'"{SECRET}"', "4711")
    assert (second.find("./Key").text, second.find("./ETag").text, second.find("./Size").text) == (
        "secret",
        '""',
        "0",
    )
    assert second.find("./LastModified").text == "2024-05-06T07:08:10.000Z"


def test_s3_pages_go_on_after_a_covered_object() -> None:
    listing = [entry(f"secret{number}") for number in range(3)]
    root = elements(
        s3("/bucket?list-type=2&max-keys=2", Containers(c=listing), Asked()), "ListBucketResult"
    )
    assert root.find("./IsTruncated").text == "true"
    assert base64.b64decode(root.find("./NextContinuationToken").text) == b"secret1"


def test_s3_lists_versions_and_delete_markers() -> None:
    root = elements(s3("/bucket?versions", versioned(), Asked()), "ListVersionsResult")
    versions = {
        (each.find("./Key").text, each.find("./ETag").text, each.find("./Size").text)
        for each in root.findall("./Version")
    }
    assert versions == {
        ("open", f'"{SECRET}"', "4711"),
        ("secret", '""', "0"),
        ("secret null", '""', "0"),
    }
    (marker,) = root.findall("./DeleteMarker")
    assert marker.find("./Key").text == "secret"
    assert marker.find("./IsLatest").text == "false"
    ids = {each.find("./VersionId").text for each in root.findall("./Version")}
    assert "null" in ids
    assert len(ids) == 3


# --- cost -------------------------------------------------------------------------------------------------------------


def test_a_full_page_is_cheap() -> None:
    names = [f"logs/2024/{quote(str(number))}/part-{number:07}.csv.gz" for number in range(10_000)]
    body = json.dumps([entry(name) for name in names]).encode()
    swift = Containers(c=body)
    request = Request.blank("/v1/a/c")
    began = time.process_time()
    answer = filtered(swift, request.environ, lambda entry: entry.name.endswith("gz"))
    seconds = time.process_time() - began
    assert SECRET.encode() not in b"".join(answer.chunks)
    print(f"10,000 entries in {seconds * 1000:.0f} ms")
    # It is promised to be 0.15 s on a machine that does nothing else.
    assert seconds < 1
