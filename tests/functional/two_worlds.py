"""Two accounts that differ only in what rules cover, and random requests to both.

If no answer depends on covered bytes, both accounts give the same answers to a covered caller,
request by request.  A world has covered and uncovered objects of all kinds (plain, large, links,
versions); the *secret* of a world is in the content, length, hash, content type and metadata of its
covered objects.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from tests.functional.wards import PHYSICIAN, RESEARCHER
from tests.support.accounts import prepare_account, unique
from tests.support.http import Answer, Client
from tests.support.storlets import SOURCES, declaration

PUBLIC: Final = b"public: age 42\n" * 20
PUT_MANIFEST: Final = {"multipart-manifest": "put"}
#: Headers that differ between any two requests.
_OF_EACH_REQUEST: Final = frozenset(
    [
        "date",
        "x-trans-id",
        "x-openstack-request-id",
        "x-storlet-invocation",
        "server-timing",
        "last-modified",
        "x-timestamp",
        "x-put-timestamp",
        "x-copied-from-last-modified",
        "x-storlet-generated-from-last-modified",
        "content-length",
        "transfer-encoding",
    ]
)
#: Varying parts of headers and bodies: times, transaction ids, boundaries.
_VARYING: Final = re.compile(
    r"tx[0-9a-f]{21}-[0-9a-f]{10}[\w.-]*|\d{10}\.\d{5}(_[0-9a-f]{16})?|\d{4}-\d\d-\d\dT[\d:.]+Z?"
    r"|\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT|cpu=[\d.]+|peak-memory=\d+"
    r"|(?<=Object Etag ')[0-9a-f]{32}"  # of a manifest's text, which has times
    r"|(?<=boundary=)[0-9a-f]{32}|(?<=--)[0-9a-f]{32}|(?<=\"milliseconds\": )\d+"
)


@dataclass(frozen=True)
class Secret:
    """The difference between the worlds.

    :param repeats: number of secret lines, which makes the length.
    """

    word: str
    repeats: int

    @property
    def content(self) -> bytes:
        return PUBLIC + f"secret: {self.word}\n".encode() * self.repeats

    @property
    def etag(self) -> str:
        return hashlib.md5(self.content, usedforsecurity=False).hexdigest()

    @property
    def length(self) -> int:
        return len(self.content)

    @property
    def large_etag(self) -> str:
        """The ETag of a large object of one segment."""
        return hashlib.md5(self.etag.encode(), usedforsecurity=False).hexdigest()


#: Both lengths have as many digits: the byte sum of an uncovered container includes the manifests
#: that the owner stored there, as text, which contain the lengths of their segments.
SECRETS: Final = (Secret("Alice", 30), Secret("Bartholomew", 30))


@dataclass(frozen=True)
class Asked:
    """One request; ``{account}`` in a header or in the body stands for the world's account."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True)
class World:
    """One account; ``caller`` is covered, ``reader`` is not."""

    admin: Client
    caller: Client
    reader: Client

    def ask(self, asked: Asked, client: Client | None = None) -> Answer:
        account = self.admin.account
        headers = {key: value.replace("{account}", account) for key, value in asked.headers.items()}
        body = asked.body.replace("{account}", account).encode()
        sender = client or self.caller
        more = body if body or asked.method in ("PUT", "POST") else None
        return sender.request(asked.method, asked.path, headers, query=asked.query, body=more)

    def told(self, answer: Answer) -> tuple[int, bool, dict[str, str], str]:
        """An answer without what differs between any two requests."""
        headers = {
            key.lower(): self._plain(value)
            for key, value in answer.headers.items()
            if key.lower() not in _OF_EACH_REQUEST
        }
        # The hash of a manifest's text, which has the times of segments.
        if "x-manifest-etag" in headers:
            headers["x-manifest-etag"] = "*"
        elif "x-static-large-object" in headers and _is_manifest(headers):
            headers["etag"] = "*"
        if "x-storlet-rule" not in headers:  # sent if the storlet has ended before its first bytes
            headers.pop("x-storlet-usage", None)
        if answer.status == 422:  # sent if the storlet began before its input was found to be bad
            headers.pop("x-storlet-ran-on", None)
        body = self._plain(answer.body.decode("latin-1"))
        if "Errors:" in body:  # of parallel requests, in any order
            body = "\n".join(sorted(body.splitlines()))
        return answer.status, answer.is_broken, headers, body

    def _plain(self, text: str) -> str:
        return _VARYING.sub("*", text.replace(self.admin.account, "ACCOUNT"))


def _is_manifest(headers: dict[str, str]) -> bool:
    """Whether the answer is the text of a manifest (``multipart-manifest=get``)."""
    return headers.get("content-type") == "application/json; charset=utf-8" and "etag" in headers


def make_world(users: dict[str, Client], secret: Secret, rules: str) -> World:
    """A new account with its objects, and then its rules."""
    account = f"AUTH_{unique('world')}"
    world = World(*(users[name].on(account) for name in ("admin:admin", RESEARCHER, PHYSICIAN)))
    admin = world.admin
    prepare_account(admin)
    acl = {"X-Container-Read": f"{RESEARCHER},{PHYSICIAN}"}
    acl["X-Container-Write"] = acl["X-Container-Read"]
    assert admin.put("storlet", b"", acl).status == 202
    assert admin.put("storlet_rules").status == 201
    for container in ("open", "inbox", "patients"):
        assert admin.put(container, b"", acl).status == 201
    assert admin.put("kept", b"", acl | {"X-Versions-Enabled": "true"}).status == 201
    assert admin.put("archive", b"", acl).status == 201
    assert admin.put("old", b"", acl | {"X-Versions-Location": "archive"}).status == 201
    source = (SOURCES / "rules_tools.py").read_bytes()
    for name in ("keep", "mark", "show", "fail"):
        headers = declaration("python", f"{name}.{name.title()}")
        assert admin.put(f"storlet/{name}.py", source, headers).status == 201
    _fill(world, secret)
    headers = declaration("python", "sizes.Sizes", Input="seekable")
    assert admin.put("storlet/sizes.py", SIZES, headers).status == 201
    headers = declaration("python", "asker.Asker", Services="read, list, write, call")
    source = (SOURCES / "asker.py").read_bytes()
    assert admin.put("storlet/asker.py", source, headers).status == 201
    answer = admin.put(
        "storlet_rules/rules.yaml",
        rules.encode(),
        {"X-Storlet-Rules-Accept-Warnings": "true"},
    )
    assert answer.status == 201, answer
    return world


def _fill(world: World, secret: Secret) -> None:
    admin = world.admin
    covered = {
        "Content-Type": "text/x-secret; of=" + secret.word,
        "X-Object-Meta-Class": "secret",
        "X-Object-Meta-Word": secret.word,
    }
    public = {"Content-Type": "text/plain", "X-Object-Meta-Study": "7"}

    def put(path: str, body: bytes = b"", headers: Mapping[str, str] = public, **more: Any) -> None:
        answer = admin.put(path, body, headers, **more)
        assert answer.status == 201, answer

    def put_static(path: str, headers: Mapping[str, str], *parts: str) -> None:
        manifest = json.dumps([{"path": part} for part in parts]).encode()
        put(path, manifest, headers, query=PUT_MANIFEST)

    for path in ("patients/a", "patients/seg/1", "kept/secret", "kept/secret", "old/a", "old/a"):
        put(path, secret.content, covered)
    for path in ("open/plain", "open/seg/1", "kept/plain", "kept/plain", "inbox/own"):
        put(path, PUBLIC)
    put_static("patients/static", covered, "/patients/seg/1")
    put("patients/dynamic", b"", covered | {"X-Object-Manifest": "patients/seg/"})
    put("patients/link", b"", {"X-Symlink-Target": "patients/a"})
    put_static("open/static", public, "/open/seg/1")
    put_static("open/over-covered", public, "/patients/seg/1")
    put_static("open/over-large", public, "/open/over-covered")
    put("open/seg/first", b"public\n" * 10_000)
    put_static("open/over-some-covered", public, "/open/seg/first", "/patients/seg/1")
    put("open/dynamic", b"", {"X-Object-Manifest": "open/seg/"})
    put("open/dynamic-over-covered", b"", {"X-Object-Manifest": "patients/seg/"})
    put("open/link", b"", {"X-Symlink-Target": "open/plain"})
    put("open/link-to-covered", b"", {"X-Symlink-Target": "patients/a"})
    put(
        "open/static-link",
        b"",
        {"X-Symlink-Target": "patients/a", "X-Symlink-Target-Etag": secret.etag},
    )
    to_replaced = {"X-Symlink-Target": "open/replaced", "X-Symlink-Target-Etag": secret.etag}
    put("open/replaced", secret.content, covered)
    put("open/stale-link", b"", to_replaced)
    put("open/replaced", PUBLIC)


OBJECTS: Final = (
    "patients/a", "patients/seg/1", "patients/static", "patients/dynamic", "patients/link",
    "patients/new", "open/plain", "open/seg/1", "open/static", "open/over-covered",
    "open/over-large", "open/over-some-covered", "open/dynamic", "open/dynamic-over-covered", "open/link",
    "open/link-to-covered", "open/static-link", "open/stale-link", "open/new", "kept/secret", "kept/plain",
    "inbox/own", "inbox/1", "inbox/2", "inbox/3",
)  # fmt: skip
#: Where the caller writes, mostly.
TARGETS: Final = (
    "inbox/1",
    "inbox/2",
    "inbox/3",
    "inbox/own",
    "open/new",
    "patients/new",
    "kept/n",
)
STORLETS: Final = (
    "mark.py", "mask.py", "keep.py", "fail.py", "none.py", "std:nop", "std:sequence", "sizes.py",
    "asker.py",
)  # fmt: skip
#: Answers with the length of each of its inputs.
SIZES: Final = b"""
class Sizes:
    def __init__(self, logger):
        pass

    def __call__(self, in_files, out_files, params):
        out_files[0].write(" ".join(str(each.size) for each in in_files).encode())
"""
CONTAINERS: Final = ("patients", "open", "inbox", "kept", "old", "archive")


class Requests:
    """Random requests of a covered caller, equal for equal seeds."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - not for security
        self._kinds: tuple[tuple[int, Callable[[], Asked]], ...] = (
            (9, self._read), (3, self._listing), (5, self._copy), (2, self._put_plain),
            (4, self._put_composed), (2, self._post), (1, self._delete), (1, self._of_container),
            (1, self._distributed),
        )  # fmt: skip

    def next(self) -> Asked:
        weights, kinds = zip(*self._kinds, strict=True)
        return self._random.choices(kinds, weights)[0]()

    # --- choices ----------------------------------------------------------------------------------

    def _maybe(self, chance: float, *choices: dict[str, str]) -> dict[str, str]:
        return self._one(choices) if self._random.random() < chance else {}

    def _one(self, choices: Any) -> Any:
        return self._random.choice(choices)

    def _etag(self) -> str:
        secret = self._one(SECRETS)
        return str(self._one((secret.etag, secret.large_etag, "0" * 32, "*")))

    def _span(self) -> str:
        lengths = sorted(secret.length for secret in SECRETS)
        between, beyond = sum(lengths) // 2, lengths[1] + 100
        return str(self._one((
            "bytes=0-1", "bytes=-5", "bytes=5-2,7-9", "bytes=0-0,-1", f"bytes={between}-",
            f"bytes={beyond}-", f"bytes={lengths[0]}-{lengths[0]}", "bytes=0-", "bytes=x",
        )))  # fmt: skip

    def _conditions(self) -> dict[str, str]:
        return self._maybe(0.4, *(
            {f"If-{key}": f'"{self._etag()}"' if self._random.random() < 0.7 else self._etag()}
            for key in ("Match", "None-Match")
        ), {"If-Modified-Since": "Wed, 01 Jan 2020 00:00:00 GMT"},
            {"If-Unmodified-Since": "Wed, 01 Jan 2020 00:00:00 GMT"},
            {"If-Range": f'"{self._etag()}"', "Range": self._span()},
        )  # fmt: skip

    def _storlet(self, chance: float = 0.25) -> dict[str, str]:
        if self._random.random() > chance:
            return {}
        storlet = self._one(STORLETS)
        own = {"X-Storlet-Parameter-2": f"ask:{quote(self._service())}"}
        return (
            {"X-Run-Storlet": storlet}
            | (own if storlet == "asker.py" else {})
            | self._maybe(0.2, {"X-Storlet-Run-On-Proxy": ""})
            | self._maybe(0.2, {"X-Storlet-Range": self._span()})
            | self._maybe(
                0.3,
                *(
                    {
                        "X-Storlet-Extra-Resources": "/" + self._one(OBJECTS),
                    }
                    | self._maybe(0.5, {"X-Storlet-If-Resources": self._etag()})
                    for _ in range(2)
                ),
            )
            | self._maybe(0.1, {"X-Storlet-Generate-Log": "true"})
            | self._maybe(0.2, {"X-Storlet-Parameter-1": "mark:#"})
            | self._maybe(0.1, {"X-Storlet-Output": "/" + self._one(TARGETS)})
        )

    def _service(self) -> str:
        """A request of a storlet to the store."""
        path, target = "/" + self._one(OBJECTS), "/" + self._one(TARGETS)
        return json.dumps([self._one((
            ["open", path], ["open", path, [0, 5]], ["stat", path], ["copy", path, target],
            ["list", self._one(CONTAINERS)], ["set", path, {"Color": "red"}],
            ["raw", "open", {"path": path, "etag": self._etag()}],
            ["call", self._one(("std:nop", "sizes.py", "keep.py")), path],
        ))])  # fmt: skip

    def _general(self) -> dict[str, str]:
        return (
            self._maybe(0.05, {"X-Newest": "true"})
            | self._maybe(0.05, {"Accept": "application/json"})
            | self._maybe(0.05, {"Origin": "http://a.example"})
            | self._maybe(0.05, {"X-Storlet-Explain": "true"})
            | self._maybe(0.05, {"X-Backend-Ignore-Range-If-Metadata-Present": "x"})
        )

    def _query(self, chance: float = 0.3) -> dict[str, str]:
        return self._maybe(
            chance,
            {"multipart-manifest": "get"}, {"multipart-manifest": "get", "format": "raw"},
            {"symlink": "get"}, {"part-number": "1"}, {"part-number": "2"}, {"version-id": "null"},
            {"heartbeat": "on"}, {"versions": ""}, {"format": "json"}, {"limit": "1"},
        )  # fmt: skip

    # --- kinds of requests ------------------------------------------------------------------------

    def _read(self) -> Asked:
        method = self._one(("GET", "GET", "HEAD"))
        headers = self._general() | self._conditions() | self._storlet()
        headers |= self._maybe(0.25, {"Range": self._span()})
        return Asked(method, self._one(OBJECTS), headers, self._query())

    def _listing(self) -> Asked:
        query = (
            self._maybe(0.7, {"format": "json"}, {"format": "xml"}, {"format": "plain"})
            | self._maybe(0.3, {"prefix": "s"}, {"delimiter": "/"}, {"prefix": "seg/"})
            | self._maybe(0.2, {"limit": "1"}, {"marker": "a"}, {"reverse": "true"})
            | self._maybe(0.2, {"versions": ""}, {"states": "listing"}, {"path": ""})
        )
        path = self._one((*CONTAINERS, ""))
        method = self._one(("GET", "GET", "HEAD"))
        return Asked(method, path, self._general() | self._conditions(), query)

    def _copy(self) -> Asked:
        source, target = self._one(OBJECTS), self._one(TARGETS)
        headers = self._general() | self._conditions() | self._storlet() | self._links(0.15)
        headers |= self._maybe(0.2, {"X-Fresh-Metadata": "true"}, {"Content-Type": "text/x-own"})
        # Swift stores several ranges with a random boundary.
        headers |= self._maybe(0.1, {"Range": self._span()})
        if "," in headers.get("Range", ""):
            del headers["Range"]
        if self._random.random() < 0.5:
            headers |= {"Destination": target}
            headers |= self._maybe(0.2, {"Destination-Account": "{account}"})
            return Asked("COPY", source, headers, self._query())
        headers |= {"X-Copy-From": source, "Content-Length": "0"}
        headers |= self._maybe(0.2, {"X-Copy-From-Account": "{account}"})
        return Asked("PUT", target, headers, self._query())

    def _links(self, chance: float) -> dict[str, str]:
        return self._maybe(
            chance,
            {"X-Object-Manifest": self._one(("patients/seg/", "open/seg/", "patients/a", "open/"))},
            {"X-Symlink-Target": self._one(OBJECTS)},
            {"X-Symlink-Target": self._one(OBJECTS), "X-Symlink-Target-Etag": self._etag()},
            {"X-Symlink-Target": self._one(OBJECTS), "X-Symlink-Target-Account": "{account}"},
            {"X-Delete-At": "4000000000"},
        )

    def _put_plain(self) -> Asked:
        headers = self._general() | self._storlet() | self._links(0.3)
        headers |= self._maybe(0.2, {"Etag": self._etag()}, {"If-None-Match": "*"})
        headers |= self._maybe(0.2, {"X-Object-Meta-Class": "secret"}, {"X-Object-Meta-A": "b"})
        headers |= self._maybe(0.2, {"Content-Type": "text/x-secret"})
        body = "" if "X-Object-Manifest" in headers or "X-Symlink-Target" in headers else "public\n"
        return Asked("PUT", self._one(TARGETS), headers, self._query(0.1), body)

    def _put_composed(self) -> Asked:
        """A manifest."""
        part: dict[str, Any] = {"path": "/" + self._one(OBJECTS)}
        if self._random.random() < 0.3:
            part["etag"] = self._etag()
        if self._random.random() < 0.3:
            part["size_bytes"] = self._one([secret.length for secret in SECRETS])
        if self._random.random() < 0.2:
            part["range"] = self._span().removeprefix("bytes=")
        # Of two parts, Swift reports the faults in any order.
        parts = [part] * self._one((1, 1, 2))
        query = PUT_MANIFEST | self._maybe(0.2, {"heartbeat": "on"}, {"format": "json"})
        headers = self._general() | self._maybe(0.1, {"Etag": self._etag()}) | self._storlet(0.1)
        return Asked("PUT", self._one(TARGETS), headers, query, json.dumps(parts))

    def _post(self) -> Asked:
        path = self._one(OBJECTS)
        headers = self._general() | self._maybe(
            0.8,
            {"X-Object-Meta-Class": "open"}, {"X-Object-Meta-Class": "secret"},
            {"Content-Type": "text/plain"}, {"X-Delete-At": "4000000000"},
            {"X-Object-Manifest": "patients/seg/"},
        )  # fmt: skip
        return Asked("POST", path, headers, self._query(0.1))

    def _delete(self) -> Asked:
        if self._random.random() < 0.3:
            names = "\n".join(self._random.sample(OBJECTS, 2)) + "\n"
            return Asked("POST", "", {"Content-Type": "text/plain"}, {"bulk-delete": ""}, names)
        query = self._maybe(0.3, {"multipart-manifest": "delete"}, {"version-id": "null"})
        headers = self._general() | self._maybe(0.2, {"X-If-Delete-At": "4000000000"})
        return Asked("DELETE", self._one((*TARGETS, "open/over-covered")), headers, query)

    def _of_container(self) -> Asked:
        headers = self._maybe(
            0.9,
            {"X-Container-Meta-Color": "red"}, {"X-Container-Meta-Quota-Bytes": "1500"},
            {"X-Versions-Location": "open"}, {"X-Container-Read": ".r:*"},
            {"X-Container-Meta-Web-Index": "own"}, {"X-Container-Sync-To": "http://a/v1/b/c"},
        )  # fmt: skip
        return Asked(self._one(("POST", "PUT", "OPTIONS")), self._one(CONTAINERS), headers)

    def _distributed(self) -> Asked:
        """A storlet on several objects; the answer, which has times, is not stored."""
        objects: Any = {"container": self._one(CONTAINERS), "prefix": self._one(("", "s"))}
        if self._random.random() < 0.5:
            objects = ["/" + path for path in self._random.sample(OBJECTS, 3)]
        given = {
            "objects": objects, "split": self._one(("std:nop", "keep.py", "sizes.py")),
            "on-failure": "report", "order": "listing",
        }  # fmt: skip
        return Asked("POST", "", {"X-Run-Storlet": "std:distributed"}, {}, json.dumps(given))
