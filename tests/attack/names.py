"""Requests whose names and metadata look like paths, options, header lines or terminal commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from tests.attack.arena import Attacker, must, outcome
from tests.attack.attack import HTTP, Attack
from tests.support.accounts import unique
from tests.support.http import NoAnswer, raw_connection
from tests.support.storlets import Tool, declaration

HONEST: Final = b"class Honest:\n def __init__(self, logger): pass\n def __call__(self, i, o, p): o[0].write(i[0].read())\n"
#: Percent-encoded as an attacker would: some decode to a path, some only after a second decoding.
UPLOADS: Final = (
    "../evil.py", "..%2fevil.py", "%2e%2e%2fevil.py", "..%252fevil.py", "a/../../evil.py", "/evil.py", "a/b.py", ".", "..", "%00.py", "evil%00.py",
    "-rf.py", "--opt.py", ".hidden.py", ".tmp-0123456789abcdef", ".lock-x", "cr%0d%0aX-Forged:%20yes.py", "esc%1b%5b2J.py", "del%7f.py", "a,b.py",
    "a:b.py", quote("\u00e9" * 512 + ".py"), "x" * 1021 + ".py", "x" * 1022 + ".py", quote("\U0001f600.py"), "bad%ff%fe.py", "%ed%a0%80.py",
    "evil.py%2f..%2f..", "con%5c..%5cevil.py", "a%20b.py", "$(id).py", "`id`.py", "a;id.py", "%25s%25n.py", "{0.__class__}.py",
)  # fmt: skip
#: Valid names that must work: non-ASCII letters, four bytes in UTF-8.
GOOD: Final = ("\u00e9t\u00e9", "\u4e2d\u6587", "\U00010400\U00010428")
INVOKED: Final = (
    b"../evil.py", b"/etc/passwd", b"..", b".", b"", b" ", b"-rf.py", b"a/b.py", b"evil\x00.py", b"esc\x1b[2J.py", b"\xff\xfe.py", b"\xed\xa0\x80.py",
    b"x" * 1024, "\u00e9".encode() * 512, "\U0001f600.py".encode(), b"%2e%2e%2fevil.py", b"a\x0bb.py", b"a\x85b.py", b"gremlin.py\tx", b"{0}", b"%s%n",
)  # fmt: skip
VALUES: Final = {
    "Main": (b"../../etc.Hostile", b"os.system", b"honest.Honest; import os", b"honest.\x1b[2J", b"\xff.Honest", b"honest.__init__.x", b"x" * 8000, b"honest.\x00"),
    "Language": (b"bash", b"../python", b"python\x1b[2J", b"\xff\xfe", b"python\x00"),
    "Language-Version": (b"../3", b"3.11; id", b"9.9", b"\xff", b"3.11\x1b[2J"),
    "Dependency": (b"../../x", b"/etc/passwd", b"a,a", b"-rf", b"\xff", b"honest.py", b".tmp-x", b"a\x1bb", b"a/b"),
    "Interface-Version": (b"\xff\xfe", b"1.0\x1b[2J"),
}  # fmt: skip


def raw(
    attacker: Attacker, method: str, target: str, headers: list[bytes], body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    """Send one request byte for byte; status 0 if the connection closed without a response."""
    client = attacker.client
    head = [f"{method} {target} HTTP/1.1".encode(), f"Host: {client.version_url.host}".encode(), b"X-Auth-Token: " + client.token.encode(),
            b"Content-Length: %d" % len(body), b"Connection: close", *headers]  # fmt: skip
    with raw_connection(client) as connection:
        connection.send(b"\r\n".join(head) + b"\r\n\r\n" + body)
        try:
            status, found = connection.read_head()
        except NoAnswer:
            return 0, {}, b""
        rest, ending = connection.read_to_end()
    must(ending == "closed", f"{method} {target}: the connection ended with {ending}")
    return status, found, rest


def declared(
    changes: Mapping[str, bytes] | None = None, main: str = "honest.Honest"
) -> list[bytes]:
    """The metadata of a Python storlet as header lines, with some values replaced."""
    lines = {name: value.encode() for name, value in declaration("python", main).items()}
    for name, value in (changes or {}).items():
        lines[f"X-Object-Meta-Storlet-{name}"] = value
    return [name.encode() + b": " + value for name, value in lines.items()]


def check(what: object, status: int, headers: Mapping[str, str]) -> None:
    """The request succeeds or is refused, never with a 500, and no response header echoes it."""
    must(status // 100 in (2, 4), f"{what!r}: {status} {headers}")
    must("x-forged" not in headers, f"{what!r}: {headers}")
    must(headers.get("x-storlet-error") != "internal", f"{what!r}: {headers}")


def uploads(attacker: Attacker) -> str:
    """Upload to the storlet and dependency containers and invoke the accepted storlets. No file may
    appear outside of its folder."""
    before = {str(path) for path in attacker.arena.cluster.state_dir.rglob("*evil*")}
    counts: dict[int, int] = {}
    for container in ("storlet", "dependency"):
        for name in UPLOADS:
            target = f"{attacker.client.version_url.path}/{container}/{name}"
            extra = (
                [b"X-Object-Meta-Storlet-Dependency-Version: 1"]
                if container == "dependency"
                else declared()
            )
            status, headers, _ = raw(attacker, "PUT", target, extra, HONEST)
            check((container, name), status, headers)
            counts[status] = counts.get(status, 0) + 1
    after = {str(path) for path in attacker.arena.cluster.state_dir.rglob("*evil*")}
    must(after == before, after - before)
    attacker.recovers()
    return ", ".join(f"{status} x{count}" for status, count in sorted(counts.items()))


def invocations(attacker: Attacker) -> str:
    """Names in the header, which is sent byte for byte."""
    counts: dict[int, int] = {}
    target = attacker.client.target(attacker.path)
    for name in INVOKED:
        status, headers, body = raw(attacker, "GET", target, [b"X-Run-Storlet: " + name])
        must(status in (400, 401, 403, 404), f"{name[:60]!r}: {status} {headers} {body[:200]!r}")
        check(name, status, headers)
        counts[status] = counts.get(status, 0) + 1
    return ", ".join(f"{status} x{count}" for status, count in sorted(counts.items()))


def good_names(attacker: Attacker) -> str:
    """Unusual but valid names are accepted, run and logged."""
    for stem in GOOD:
        name = f"{stem}.py"
        path = f"{attacker.client.version_url.path}/storlet/{quote(name)}"
        status, headers, body = raw(attacker, "PUT", path, declared(main=f"{stem}.Honest"), HONEST)
        must(status == 201, f"{name}: {status} {headers} {body!r}")
        answer = Tool(attacker.client, name).get(
            attacker.path, "identity", {"X-Storlet-Generate-Log": "True"}
        )
        must((outcome(answer), answer.body) == ("200", attacker.tenant.content), answer)
    return f"{len(GOOD)} names, 200 each"


def manifests(attacker: Attacker) -> str:
    """An invalid manifest is refused at upload, with all of its errors."""
    counts: dict[int, int] = {}
    path = f"{attacker.client.version_url.path}/storlet/honest.py"
    for name, values in VALUES.items():
        for value in values:
            status, headers, _ = raw(attacker, "PUT", path, declared({name: value}), HONEST)
            check((name, value), status, headers)
            if status == 201:
                # Bytes that are not text name no existing object: harmless, and reported when used.
                answer = Tool(attacker.client, "honest.py").get(attacker.path)
                taken = outcome(answer) in (
                    "422 storlet.load",
                    "200" if name == "Interface-Version" else "",
                )
                must(
                    (taken and value == b"\xff") or name == "Interface-Version",
                    f"{name}: {value!r}: {answer}",
                )
            counts[status] = counts.get(status, 0) + 1
    # CR/LF in a value ends the line: the rest is only another header of the same client.
    status, headers, _ = raw(
        attacker,
        "PUT",
        path,
        [*declared(), b"X-Object-Meta-A: b\r\nX-Backend-Storlet-Invocation: {}"],
        HONEST,
    )
    must(status == 201, f"{status} {headers}")
    return ", ".join(f"{status} x{count}" for status, count in sorted(counts.items()))


def backend_headers(attacker: Attacker) -> str:
    """A client cannot send backend headers, nor forge headers that only the filter writes."""
    forged = {
        "X-Backend-Storlet-Invocation": '{"v":1}', "X-Backend-Storlet-Run": "1", "X-Backend-Storlet-Full": "1", "X-Backend-Storlet-Overflow": "proxy",
    }  # fmt: skip
    plain = attacker.client.get(attacker.path, forged)
    must((plain.status, plain.body) == (200, attacker.tenant.content), plain)
    must(
        not [name for name in plain.headers if name.lower().startswith("x-backend")],
        dict(plain.headers),
    )
    ran = attacker.tool.get(attacker.path, "identity", forged)
    must((outcome(ran), ran.body) == ("200", attacker.tenant.content), ran)
    return "ignored"


def raised_limits(attacker: Attacker) -> str:
    """A request may lower its limits, not raise them."""
    seen = set()
    for name in ("Memory", "Output", "Timeout-Total", "Processes"):
        for value in (
            "1T",
            "999999999999999999999999",
            "-1",
            "0x10",
            "1e9",
            "\u0661",
            "inf",
            "nan",
            "",
        ):
            answer = attacker.tool.get(attacker.path, "flood", {f"X-Storlet-Limit-{name}": value})
            must(
                outcome(answer) in ("400 bad_request", "200 broken", "422 storlet.limit.output"),
                (name, value, outcome(answer)),
            )
            must(len(answer.body) <= 8 << 20, f"{name}: {value}: {len(answer.body)} bytes came")
            seen.add(outcome(answer))
    headers = {**declaration("python", "honest.Honest"), "X-Object-Meta-Storlet-Memory": "100T"}
    refused = attacker.client.put("storlet/honest.py", HONEST, headers)
    must(outcome(refused) == "400 registration.invalid", refused)
    return ", ".join(sorted(seen)) + f"; at upload {outcome(refused)}"


#: Parts of account names, which users choose, too: each account starts a sandbox, so most parts are
#: in one name.
ACCOUNTS: Final = ("-opt \U0001f600%2e%2e..$(id)a:b,c=d", "x" * 180, "\u00e9" * 60)


def account_names(attacker: Attacker) -> str:
    """The honest storlet runs in an account of each name."""

    def runs(stem: str) -> None:
        tenant = attacker.arena.account(f"AUTH_{unique('n')}{stem}")
        must(tenant.is_well(), f"{stem!r}: {outcome(tenant.tool().get(tenant.path))}")

    # Side by side: most of the time is that of the Docker engine, which starts the sandboxes.
    for done in [attacker.arena.pool.submit(runs, stem) for stem in ACCOUNTS]:
        done.result()
    return f"{len(ACCOUNTS)} accounts, 200 each"


ROWS: Final = (
    Attack("names at upload: paths, options, NUL, CR/LF, escapes", "201 or 4xx, nothing outside", uploads, HTTP),
    Attack("names at invocation, byte for byte", "400 to 404", invocations, HTTP),
    Attack("names in letters of 2, 3 and 4 bytes", "work", good_names, HTTP, once=True),
    Attack("storlet metadata: paths, CR/LF, non-Latin-1", "400", manifests, HTTP, once=True),
    Attack("backend headers from a client", "ignored", backend_headers, HTTP),
    Attack("limits raised by a request", "400, or no more than before", raised_limits, HTTP),
    Attack("account names", "work", account_names, HTTP, once=True),
)  # fmt: skip
