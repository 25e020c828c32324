"""What a client asked for, parsed once at the edge into a frozen :class:`StorletRequest`.

Every fault of a request is found and reported in one answer.  A header that begins with ``X-Storlet-`` and is not known
is refused by name with the nearest known one: ignored, it would look as if it had worked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from storlet_middleware import names
from storlet_middleware.config import Config, nearest
from storlet_middleware.engine import limits
from storlet_middleware.errors import AccessDenied, BadRequest, MethodNotAllowed, PreconditionFailed

#: ``(first, last)`` as written: ``(5, None)`` is ``5-``, ``(None, 5)`` is ``-5``.
ByteRange = tuple[int | None, int | None]

_RANGE_SPEC: Final = re.compile(r"\s*(\d*)\s*-\s*(\d*)\s*")
_REFUSED_WITH_COPY: Final = ("X-Copy-From-Account", "Destination-Account", "X-Fresh-Metadata")


@dataclass(frozen=True)
class ObjectPath:
    """``container`` and ``name`` of an object as text, unquoted."""

    container: str
    name: str


@dataclass(frozen=True)
class StorletRequest:
    """One request to run a storlet.

    ``source`` is what is read (GET, COPY), ``target`` what is written (PUT, COPY); all in ``account``.  ``limits`` are the
    request's own, by the names of :data:`storlet_middleware.engine.limits.TABLE`; ``run_on_object`` is what only a rule asks for.
    """

    method: str
    version: str
    account: str
    storlet: str
    source: ObjectPath | None
    target: ObjectPath | None
    parameters: Mapping[str, str]
    ranges: tuple[ByteRange, ...] = ()
    extra: tuple[ObjectPath, ...] = ()
    run_on_proxy: bool = False
    run_on_object: bool = False
    wants_log: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)


def text(value: str) -> str:
    """A WSGI string (Latin-1 view of UTF-8 bytes) as text; raises ``UnicodeDecodeError``."""
    return value if value.isascii() else value.encode("latin-1").decode("utf-8")


def wsgi(value: str) -> str:
    """The reverse of :func:`text`."""
    return value if value.isascii() else value.encode().decode("latin-1")


def account_of(value: str) -> str:
    """An account as Swift reads it from a header (quoted); raises :class:`BadRequest`."""
    try:
        return unquote(text(value), errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("an account's name is not UTF-8") from None


def storlet_headers(environ: Mapping[str, Any]) -> list[str]:
    """Names of all ``X-Storlet-*`` headers of the request, in HTTP spelling."""
    # Nearly all requests have none, and every one for an object is asked: all keys at once take less than one by one.
    if "HTTP_X_STORLET_" not in "\n".join(environ):
        return []
    return [key[5:].replace("_", "-").title() for key in environ if key.startswith("HTTP_X_STORLET_")]


def refuse_unknown(headers: Iterable[str], known: tuple[str, ...], why: str) -> list[str]:
    """A fault for each name in ``headers`` that is not in ``known``."""
    exact = [name for name in known if not name.endswith("-")]
    prefixes = tuple(name for name in known if name.endswith("-"))
    return [
        f"{header}: {why}{nearest(header, list(known))}"
        for header in headers
        if header not in exact and not header.startswith(prefixes)
    ]


def parse_ranges(value: str) -> tuple[ByteRange, ...]:
    """``bytes=a-b``, ``bytes=a-``, ``bytes=-n`` and lists of them; raises ``ValueError`` saying what is wrong."""
    unit, equals, specs = value.partition("=")
    if unit.strip() != "bytes" or not equals:
        raise ValueError("want bytes=a-b, bytes=a- or bytes=-n, or several with commas")
    ranges: list[ByteRange] = []
    for spec in specs.split(","):
        match = _RANGE_SPEC.fullmatch(spec)
        if not match or not (match[1] or match[2]) or len(match[1]) > 18 or len(match[2]) > 18:
            raise ValueError(f"{spec.strip()!r} is not a range")
        first = int(match[1]) if match[1] else None
        last = int(match[2]) if match[2] else None
        if first is not None and last is not None and first > last:
            raise ValueError(f"{spec.strip()!r} ends before it begins")
        ranges.append((first, last))
    return tuple(ranges)


def resolve_range(wanted: ByteRange, size: int) -> tuple[int, int] | None:
    """Inclusive first and last byte of ``wanted`` in ``size`` bytes, clipped; ``None`` when it lies outside."""
    first, last = wanted
    if first is None:
        first = max(0, size - (last or 0))
        return (first, size - 1) if last and size else None
    if first >= size:
        return None
    return first, size - 1 if last is None else min(last, size - 1)


def parse_object_path(value: str, *, needs_slash: bool) -> ObjectPath:
    """``/container/object`` (quoted, as in ``X-Copy-From``) as an :class:`ObjectPath`; raises ``ValueError``."""
    path = unquote(text(value.strip()), errors="strict")
    if needs_slash and not path.startswith("/"):
        raise ValueError("want /container/object")
    container, slash, name = path.lstrip("/").partition("/")
    if not container or not slash or not name or "\0" in path:
        raise ValueError("want /container/object")
    return ObjectPath(container, name)


def parse(environ: Mapping[str, Any], path: tuple[str, str, str, str], config: Config) -> StorletRequest:
    """The request in ``environ``, which carries ``X-Run-Storlet``; raises the error that it deserves.

    :param path: version, account, container and object from the URL, as text.
    :param config: has the maxima of limits.
    """
    return _Parser(environ, path, config).parse()


class _Parser:
    """Collects faults while it reads one request."""

    def __init__(self, environ: Mapping[str, Any], path: tuple[str, str, str, str], config: Config) -> None:
        self._environ = environ
        self._config = config
        self._version, self._account, container, name = path
        self._here = ObjectPath(container, name)
        #: Most requests have no headers of ours but the one that names the storlet.
        self._given = storlet_headers(environ)
        self._faults: list[str] = []

    def parse(self) -> StorletRequest:
        method = self._environ["REQUEST_METHOD"]
        if method == "POST":
            # What clients of OpenStack Storlets get; there, only ACLs are posted.
            raise AccessDenied("Unauthorized to get or modify the container ACL", status=401)
        if method not in ("GET", "PUT", "COPY"):
            raise MethodNotAllowed(f"{method} cannot run a storlet: use GET, PUT or COPY")
        source, target = self._source_and_target(method)
        storlet = self._storlet()
        request = StorletRequest(
            method="COPY" if source and target else method,
            version=self._version,
            account=self._account,
            storlet=storlet,
            source=source,
            target=target,
            parameters=self._parameters(),
            ranges=self._ranges(method),
            extra=self._extra(),
            run_on_proxy=self._run_on_proxy(),
            wants_log=self._flag(names.GENERATE_LOG),
            limits=self._limits(storlet),
        )
        if self._given:
            self._faults += refuse_unknown(self._given, names.CLIENT_HEADERS, "unknown header")
        if self._faults:
            raise BadRequest("; ".join(self._faults))
        return request

    def _header(self, name: str) -> str | None:
        value = self._environ.get("HTTP_" + name.upper().replace("-", "_"))
        return None if value is None else str(value)

    def _storlet(self) -> str:
        try:
            name = text(self._header(names.RUN_STORLET) or "").strip()
        except UnicodeDecodeError:
            name = ""
        if not name or "/" in name or any(ord(char) < 32 or ord(char) == 127 for char in name):
            self._faults.append(f"{names.RUN_STORLET}: want the name of an object in the storlet container")
        return name

    def _source_and_target(self, method: str) -> tuple[ObjectPath | None, ObjectPath | None]:
        copy_from = self._header("X-Copy-From") if method == "PUT" else None
        if method == "COPY" or copy_from is not None:
            self._faults += [
                f"Storlet on copy with {name} is not supported"
                for name in _REFUSED_WITH_COPY
                if self._header(name) is not None
            ]
        if method == "GET":
            return self._here, None
        if copy_from is not None:
            if self._environ.get("CONTENT_LENGTH") not in (None, "", "0") or "HTTP_TRANSFER_ENCODING" in self._environ:
                self._faults.append("Copy requests require a zero byte body")
            return self._path("X-Copy-From", copy_from), self._here
        if method == "PUT":
            return None, self._here
        destination = self._header("Destination")
        if destination is None:
            raise PreconditionFailed("Destination header required")
        return self._here, self._path("Destination", destination)

    def _path(self, header: str, value: str) -> ObjectPath | None:
        try:
            return parse_object_path(value, needs_slash=False)
        except ValueError:
            raise PreconditionFailed(f"{header} header must be of the form <container name>/<object name>") from None

    def _parameters(self) -> dict[str, str]:
        parameters: dict[str, str] = {}
        query = self._environ.get("QUERY_STRING")
        if query:
            try:
                parameters.update(parse_qsl(text(query), keep_blank_values=True, errors="strict"))
            except ValueError:
                self._faults.append("query string: not UTF-8")
        for header in sorted(header for header in self._given if header.startswith(names.PARAMETER_PREFIX)):
            try:
                name, colon, value = unquote(text(self._header(header) or ""), errors="strict").partition(":")
            except ValueError:
                self._faults.append(f"{header}: not UTF-8")
                continue
            if not colon or not name.strip():
                self._faults.append(f"{header}: want key:value")
            parameters[name] = value
        self._faults += [
            f"parameter {name!r}: names that begin with storlet_ are reserved"
            for name in parameters
            if name.startswith("storlet_")
        ]
        return parameters

    def _ranges(self, method: str) -> tuple[ByteRange, ...]:
        if self._header("Range") is not None:
            self._faults.append(f"Storlet execution with range header is not supported: use {names.RANGE}")
        value = self._header(names.RANGE)
        if value is None:
            return ()
        if method == "PUT" and self._header("X-Copy-From") is None:
            self._faults.append(f"{names.RANGE}: a PUT has no range to read")
        try:
            return parse_ranges(value)
        except ValueError as error:
            self._faults.append(f"{names.RANGE}: {error}")
            return ()

    def _extra(self) -> tuple[ObjectPath, ...]:
        value = self._header(names.EXTRA_RESOURCES)
        if not value:
            return ()
        try:
            return tuple(parse_object_path(part, needs_slash=True) for part in value.split(","))
        except ValueError:
            self._faults.append("X-Storlet-Extra-Resource must be a csv with/container/object format")
            return ()

    def _run_on_proxy(self) -> bool:
        value = self._header(names.RUN_ON_PROXY)
        if value:
            self._faults.append(f"{names.RUN_ON_PROXY} header should be empty")
        return value is not None

    def _limits(self, storlet: str) -> dict[str, float]:
        given = {header: self._header(header) or "" for header in self._given}
        if not given:
            return {}
        values, faults = limits.requested(given)
        trust_class = self._config.class_of(self._account, storlet)
        self._faults += faults + limits.too_much(values, names.LIMIT_PREFIX, trust_class)
        return values

    def _flag(self, name: str) -> bool:
        value = (self._header(name) or "false").strip().lower()
        if value not in ("true", "1", "yes", "on", "t", "y", "false", "0", "no", "off", "f", "n"):
            self._faults.append(f"{name}: want true or false")
        return value in ("true", "1", "yes", "on", "t", "y")
