"""A client's request for a storlet, parsed once at the edge into a frozen :class:`StorletRequest`.

All faults of a request are reported in one answer.  An unknown ``X-Storlet-*`` header is refused by
name, with the nearest known one: if it were ignored, the request would look as if it had worked.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from swift.common import constraints

from storlet_middleware import names
from storlet_middleware.config import Config, nearest
from storlet_middleware.engine import limits
from storlet_middleware.errors import (
    AccessDenied,
    BadRequest,
    MethodNotAllowed,
    PreconditionFailed,
    fault,
)
from storlet_middleware.wsgi.byte_ranges import ByteRange, parse_ranges
from storlet_middleware.wsgi.operation import Operation, parameters_of
from storlet_middleware.wsgi.strings import text
from storlet_middleware.wsgi.swift_paths import SwiftPath, name_fault

#: Parameters of the query with which Swift reads another version, a part, the manifest or the link
#: in place of the object.
SWIFT_QUERIES: Final = frozenset({"multipart-manifest", "part-number", "symlink", "version-id"})
#: The same and others that are not meant for a storlet, or beginnings of such names.
_QUERIES_OF_SWIFT: Final = (*sorted(SWIFT_QUERIES), "temp_url_", "x-amz-", "filename", "inline")
_T = TypeVar("_T")
#: Those with which Swift stores a manifest or a version instead of the body; a storlet's result is
#: a plain object.
_STORING_QUERIES: Final = ("multipart-manifest", "version-id")
#: Key of a WSGI environment: the PUT of an account by a storlet, which runs another one on data.
ON_DATA: Final = "storlets.on-data"
#: Stands for a byte that is not UTF-8.
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
#: The key of a storlet version.
_VERSION: Final = re.compile("[0-9a-f]{64}")
#: An ETag of Swift, without quotes: a hash, of large objects with a number of parts.
_ETAG: Final = re.compile("[0-9A-Za-z-]{1,128}")
_REFUSED_WITH_COPY: Final = ("X-Copy-From-Account", "Destination-Account", "X-Fresh-Metadata")
_KNOWN: Final = frozenset(names.CLIENT_HEADERS)


class ObjectPath(NamedTuple):
    """``container`` and ``name`` of an object as text, unquoted."""

    container: str
    name: str


@dataclass(frozen=True)
class StorletRequest:
    """One request to run a storlet.

    ``source`` is the object that is read (GET, COPY), ``target`` the one that is written (PUT,
    COPY), ``outputs`` are those of the storlet's further outputs; all are in ``account``.
    ``limits`` are the request's own, by the names of
    :data:`storlet_middleware.engine.limits.TABLE`; only a rule sets ``run_on_object``.
    ``if_version`` is the key of the only version that may run, ``if_resources`` has the ETag of
    each extra resource that may be read; empty: any.  ``rendered`` are the names of parameters
    that a rule has made from facts of the request, which its caller may have chosen.
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
    outputs: tuple[ObjectPath, ...] = ()
    run_on_proxy: bool = False
    run_on_object: bool = False
    wants_log: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)
    if_version: str = ""
    if_resources: tuple[str, ...] = ()
    rendered: frozenset[str] = frozenset()

    @property
    def input_count(self) -> int:
        """Number of inputs: the object or the body, or each of its ranges, and the extra ones."""
        return max(1, len(self.ranges)) + len(self.extra)

    @property
    def descriptor_count(self) -> int:
        """Number of inputs and further outputs, each of which is a descriptor of the worker."""
        return self.input_count + len(self.outputs)


def is_query_of_swift(name: str) -> bool:
    """Whether a parameter of the query may be meant for Swift and not for the storlet."""
    return name.lower().startswith(_QUERIES_OF_SWIFT)


def split_parameters(
    given: Mapping[str, _T], declared: Container[str]
) -> tuple[dict[str, _T], dict[str, _T]]:
    """The parameters that a manifest has to declare, and others that may be meant for Swift."""
    own: dict[str, _T] = {}
    others: dict[str, _T] = {}
    for name, value in given.items():
        (own if name in declared or not is_query_of_swift(name) else others)[name] = value
    return own, others


def storlet_headers(environ: Mapping[str, Any]) -> dict[str, str]:
    """All ``X-Storlet-*`` headers of the request: the values, by the names in HTTP spelling."""
    # Runs for every object request, nearly all without such headers: one search in all keys is
    # faster than one for each key.
    if "HTTP_X_STORLET_" not in "\n".join(environ):
        return {}
    return {
        names.header_of(key): value
        for key, value in environ.items()
        if key.startswith("HTTP_X_STORLET_")
    }


def unknown_header_faults(headers: Iterable[str], known: tuple[str, ...], why: str) -> list[str]:
    """A fault for each name in ``headers`` that is not in ``known``."""
    unknown = [header for header in headers if header not in known]
    if unknown:
        prefixes = tuple(name for name in known if name.endswith("-"))
        unknown = [header for header in unknown if not header.startswith(prefixes)]
    return [f"{header}: {why}{nearest(header, list(known))}" for header in unknown]


def headers_without_storlet(environ: Mapping[str, Any]) -> BadRequest:
    """The error for a request with ``X-Storlet-*`` headers and without ``X-Run-Storlet``."""
    headers = storlet_headers(environ)
    faults = unknown_header_faults(headers, (*names.CLIENT_HEADERS, names.CHECK), "unknown header")
    if names.CHECK in headers:
        faults.append(f"{names.CHECK}: is for a PUT or POST of a storlet only: leave it out")
    known = [
        header for header in headers if not any(each.startswith(header + ":") for each in faults)
    ]
    faults += [
        f"{header}: means nothing without {names.RUN_STORLET}: send both, or neither"
        for header in known
    ]
    return BadRequest("; ".join(faults))


def parse_object_path(value: str, *, needs_slash: bool) -> ObjectPath:
    """``/container/object`` (quoted, as in ``X-Copy-From``) as an :class:`ObjectPath`; raises
    ``ValueError`` with a text for the client.
    """
    try:
        path = unquote(text(value.strip()), errors="strict")
    except UnicodeDecodeError:
        raise ValueError("want UTF-8, percent-encoded") from None
    if needs_slash and not path.startswith("/"):
        raise ValueError("want /container/object")
    container, _, name = path.lstrip("/").partition("/")
    wrong = name_fault(container, name)
    if wrong:
        raise ValueError(wrong)
    return ObjectPath(container, name)


def storlet_name_fault(name: str) -> str:
    """Why no storlet can have this name; empty if one can."""
    if not name or "/" in name or _CONTROL.search(name):
        return "want the name of an object in the storlet container"
    most = constraints.MAX_OBJECT_NAME_LENGTH
    if len(name.encode()) > most:
        return f"the name of the storlet has more than {most} bytes"
    return ""


def parse(operation: Operation, config: Config) -> StorletRequest:
    """The request for a storlet in ``operation``, which carries ``X-Run-Storlet``.

    :param config: has the maxima of the limits.
    :raises BadRequest: with all faults of the request at once.
    :raises StorletError: the method or the copy cannot run a storlet.
    """
    return _Parser(operation, config).parse()


class _Parser:
    """Collects the faults of one request while it reads it.

    A method for a header is called only if the request has the header: most requests have no header
    of ours but ``X-Run-Storlet``.
    """

    def __init__(self, operation: Operation, config: Config) -> None:
        self._operation = operation
        self._config = config
        self._given = storlet_headers(operation.environ)
        self._faults: list[str] = []

    def parse(self) -> StorletRequest:
        operation, given = self._operation, self._given
        if operation.method == "POST":
            # The answer of OpenStack Storlets, where a POST changes ACLs only.
            raise AccessDenied("Unauthorized to get or modify the container ACL", status=401)
        if operation.method not in ("GET", "PUT", "COPY"):
            raise MethodNotAllowed(f"{operation.method} cannot run a storlet: use GET, PUT or COPY")
        if operation.is_copy:
            self._check_copy()
        if operation.method == "PUT":
            self._faults += [
                f"{name}: not allowed in the query of a PUT that runs a storlet: leave it out"
                for name in _STORING_QUERIES
                if name in operation.query
            ]
        storlet = self._storlet()
        extra = self._extra() if names.EXTRA_RESOURCES in given else ()
        has_range = names.RANGE in given or "HTTP_RANGE" in operation.environ
        request = StorletRequest(
            method=operation.method,
            version=operation.path.version,
            account=operation.path.account,
            storlet=storlet,
            source=None if operation.source is None else _object_of(operation.source),
            target=None if operation.target is None else _object_of(operation.target),
            parameters=self._parameters(),
            ranges=self._ranges() if has_range else (),
            extra=extra,
            outputs=self._outputs(extra) if names.OUTPUT in given else (),
            run_on_proxy=names.RUN_ON_PROXY in given and self._run_on_proxy(),
            wants_log=names.GENERATE_LOG in given and self._flag(names.GENERATE_LOG),
            limits=self._limits(storlet) if given else {},
            if_version=self._if_version() if names.IF_VERSION in given else "",
            if_resources=self._if_resources(len(extra)) if names.IF_RESOURCES in given else (),
        )
        if not _KNOWN.issuperset(given):
            self._faults += unknown_header_faults(given, names.CLIENT_HEADERS, "unknown header")
        if self._faults:
            raise BadRequest("; ".join(self._faults))
        return request

    def _storlet(self) -> str:
        given = self._operation.header(names.RUN_STORLET) or ""
        try:
            name = text(given).strip()
        except UnicodeDecodeError:
            name = ""
        wrong = storlet_name_fault(name)
        if wrong:
            self._faults.append(fault(names.RUN_STORLET, given, wrong))
        return name

    def _check_copy(self) -> None:
        operation = self._operation
        if operation.fault:
            raise PreconditionFailed(operation.fault)
        self._faults += [
            fault(name, value, f"Storlet on copy with {name} is not supported: leave it out")
            for name in _REFUSED_WITH_COPY
            if (value := operation.header(name)) is not None
        ]

    def _parameters(self) -> dict[str, str]:
        parameters: dict[str, str] = {}
        query = parameters_of(self._operation.environ)
        if any(map(_LONE_SURROGATE.search, itertools.chain.from_iterable(query))):
            given = self._operation.environ["QUERY_STRING"]
            self._faults.append(fault("query string", given, "want UTF-8, percent-encoded"))
        else:
            parameters.update(query)
        for header in sorted(self._given):
            if not header.startswith(names.PARAMETER_PREFIX):
                continue
            given = self._given[header]
            try:
                name, colon, value = unquote(text(given), errors="strict").partition(":")
            except ValueError:
                self._faults.append(fault(header, given, "want UTF-8, percent-encoded"))
                continue
            if not colon or not name.strip():
                self._faults.append(fault(header, given, "want key:value"))
            parameters[name] = value
        if parameters:
            self._faults += [
                f"parameter {name!r}: names that begin with storlet_ are reserved: choose another"
                " name"
                for name in parameters
                if name.startswith("storlet_")
            ]
        return parameters

    def _ranges(self) -> tuple[ByteRange, ...]:
        plain = self._operation.header("Range")
        if plain is not None:
            wanted = f"Storlet execution with range header is not supported: use {names.RANGE}"
            self._faults.append(fault("Range", plain, wanted))
        value = self._given.get(names.RANGE)
        if value is None:
            return ()
        if self._operation.source is None:
            wanted = "a PUT has no range to read: leave it out"
            self._faults.append(fault(names.RANGE, value, wanted))
        try:
            return parse_ranges(value)
        except ValueError as error:
            self._faults.append(fault(names.RANGE, value, str(error)))
            return ()

    def _extra(self) -> tuple[ObjectPath, ...]:
        value = self._given[names.EXTRA_RESOURCES]
        if not value:
            return ()
        paths = []
        for part in value.split(","):
            try:
                paths.append(parse_object_path(part, needs_slash=True))
            except ValueError as error:
                # The text of OpenStack Storlets, and what is wrong.
                wanted = "X-Storlet-Extra-Resource must be a csv with/container/object format"
                self._faults.append(fault(names.EXTRA_RESOURCES, part, f"{wanted}: {error}"))
        return tuple(paths)

    def _outputs(self, extra: Iterable[ObjectPath]) -> tuple[ObjectPath, ...]:
        """The targets of further outputs: each is another object than all others of the request."""
        outputs, faults = outputs_of(self._operation)
        self._faults += faults
        taken = dict.fromkeys(extra, "an extra resource")
        if self._operation.source is not None:
            taken[_object_of(self._operation.source)] = "the object that the storlet reads"
        if self._operation.target is not None:
            taken[_object_of(self._operation.target)] = "the object that the request writes"
        for output in outputs:
            shown = f"/{output.container}/{output.name}"
            if output in taken:
                wanted = f"it is {taken[output]}: name another object"
                self._faults.append(fault(names.OUTPUT, shown, wanted))
            elif output.container in reserved_containers(self._config):
                wanted = f"a storlet cannot write into {output.container}: choose another container"
                self._faults.append(fault(names.OUTPUT, shown, wanted))
            taken[output] = "named twice"
        return outputs

    def _if_version(self) -> str:
        value = self._given[names.IF_VERSION]
        if _VERSION.fullmatch(value):
            return value
        wanted = "want the 64 hex digits of a storlet's hash in the record of a run"
        self._faults.append(fault(names.IF_VERSION, value, wanted))
        return ""

    def _if_resources(self, count: int) -> tuple[str, ...]:
        value = self._given[names.IF_RESOURCES]
        etags = tuple(each.strip().strip('"') for each in value.split(","))
        if len(etags) == count and all(map(_ETAG.fullmatch, etags)):
            return etags
        wanted = f"want an ETag for each of the {count} resources of {names.EXTRA_RESOURCES}"
        self._faults.append(fault(names.IF_RESOURCES, value, wanted))
        return ()

    def _run_on_proxy(self) -> bool:
        value = self._given[names.RUN_ON_PROXY]
        if value:
            wanted = f"{names.RUN_ON_PROXY} header should be empty"
            self._faults.append(fault(names.RUN_ON_PROXY, value, wanted))
        return True

    def _limits(self, storlet: str) -> dict[str, float]:
        given = {
            header: value
            for header, value in self._given.items()
            if header.startswith(names.LIMIT_PREFIX)
        }
        if not given:
            return {}
        values, faults = limits.requested(given)
        trust_class = self._config.class_of(self._operation.path.account, storlet)
        self._faults += faults + limits.above_maximum(values, names.LIMIT_PREFIX, trust_class)
        return values

    def _flag(self, name: str) -> bool:
        given = self._given[name] or "false"
        value = given.strip().lower()
        if value not in ("true", "1", "yes", "on", "t", "y", "false", "0", "no", "off", "f", "n"):
            self._faults.append(fault(name, given, "want true or false"))
        return value in ("true", "1", "yes", "on", "t", "y")


def run_headers(storlet: str, parameters: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request of ours that runs ``storlet``; the reverse of :func:`parse`."""
    return {
        names.RUN_STORLET: storlet,
        **{
            f"{names.PARAMETER_PREFIX}{number}": f"{quote(name, safe='')}:{quote(value, safe='')}"
            for number, (name, value) in enumerate(parameters.items())
        },
    }


def outputs_of(operation: Operation) -> tuple[tuple[ObjectPath, ...], list[str]]:
    """The targets of further outputs, and the faults of the header."""
    value = operation.header(names.OUTPUT)
    if value is None:
        return (), []
    paths, faults = [], []
    for part in value.split(","):
        try:
            paths.append(parse_object_path(part, needs_slash=True))
        except ValueError as error:
            faults.append(fault(names.OUTPUT, part.strip(), str(error)))
    return tuple(paths), faults


def reserved_containers(config: Config) -> frozenset[str]:
    """Containers whose objects have a meaning, so that no storlet may write them."""
    return frozenset(
        (
            config.storlet.storlet_container,
            config.storlet.dependency_container,
            config.storlet.log_container,
            config.rules.container,
        )
    )


def _object_of(place: SwiftPath) -> ObjectPath:
    return ObjectPath(place.container or "", place.name or "")
