"""The requests of each operation, as flows (:mod:`~storlet_client.exchange`)."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from email.utils import parsedate_to_datetime
from pathlib import PurePosixPath
from typing import Any, Callable
from urllib.parse import quote, unquote, urlsplit

from storlet_client.bundle import languages
from storlet_client.bundle.manifest import SECRET_BYTES, SECRET_NAME
from storlet_client.content import Content, md5_of, size_of
from storlet_client.errors import BrokenAnswer, ConfigurationError, NotThere, Refused, StorletsError
from storlet_client.exchange import Answer, Body, Call, Flow, body_of, together
from storlet_client.session import Session

_META = "X-Object-Meta-Storlet-"
#: A bundle and the number of one of its versions.
_NUMBERED = re.compile(r"(.+)@([0-9]{1,9})", re.ASCII)
#: Characters of a parameter that are sent as they are; ``-v`` and logs stay legible.
_PLAIN = "!#$&'()*+,/:;=?@[]^`{|}"
_PAGE = 1000
_SOME = 100
_CREATED, _FORBIDDEN, _NOT_FOUND = 201, 403, 404
#: The error code for a storlet, a bundle or a version that does not exist.
_NO_STORLET = "storlet.not_found"
#: That for a bundle with faults, and the fault of a folder that release 0.2 does not know.
_NO_BUNDLE, _OLDER_FOLDERS = "registration.bundle", "all else below code/ and tests/"
#: The header of an upload of rules that have warnings.
ACCEPT_WARNINGS = "X-Storlet-Rules-Accept-Warnings"
#: The start of the names of storlets that every account has.
LIBRARY = "std:"


@dataclass(frozen=True)
class Info:
    """The cluster's description of its storlets; see *Cluster information* in the reference.

    :param languages: versions by language.
    :param limits: maxima by name, in the unit of the name.
    """

    storlet_container: str
    dependency_container: str
    log_container: str
    rules_container: str
    rules_object: str
    languages: Mapping[str, tuple[str, ...]]
    limits: Mapping[str, float]
    raw: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def engine(self) -> str:
        """The version of the engine API, such as ``1.0``."""
        return str(self.raw.get("engine_api", "1.0"))

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Info:
        rules = raw.get("rules") or {}
        return cls(
            raw.get("storlet_container", "storlet"),
            raw.get("storlet_dependency", "dependency"),
            raw.get("storlet_log", "storletlog"),
            rules.get("container", "storlet_rules"),
            rules.get("object", "rules.yaml"),
            {name: tuple(versions) for name, versions in (raw.get("languages") or {}).items()},
            raw.get("limits") or {},
            raw,
        )


@dataclass(frozen=True)
class Storlet:
    """A deployed storlet.

    :param size: bytes of its file.
    :param modified: UTC, such as ``2026-11-23 22:31:45``.
    :param declared: its other ``X-Object-Meta-Storlet-*`` metadata, such as limits, by lower-case
        name without the prefix.
    """

    name: str
    language: str
    main: str
    size: int
    modified: str
    etag: str
    dependencies: tuple[str, ...] = ()
    declared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Deployed:
    """The result of a deployment.

    :param before: the storlet that was replaced, or ``None``.
    :param uploaded: the changes of the dependencies that were uploaded, each as one line.
    """

    before: Storlet | None
    after: Storlet
    uploaded: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[str, ...]:
        """The differences, each as one line; empty if nothing changed."""
        if self.before is None:
            new = f"new: {self.after.size:,} bytes of {self.after.language}"
            return (new, *self.uploaded)
        before, after = self.before, self.after
        code = f"code: {before.size:,} -> {after.size:,} bytes"
        changed = [code] if before.etag != after.etag else []
        return (*changed, *self.uploaded, *declared_changes(before, after))


def declared_changes(before: Storlet, after: Storlet) -> list[str]:
    """The differences between the declarations of two storlets, each as one line."""
    found = []
    for name in ("language", "main"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            found.append(f"{name}: {old} -> {new}")
    if before.dependencies != after.dependencies:
        listed = [", ".join(each.dependencies) or "none" for each in (before, after)]
        found.append(f"dependencies: {' -> '.join(listed)}")
    for name in sorted({*before.declared, *after.declared}):
        old, new = before.declared.get(name, "unset"), after.declared.get(name, "unset")
        if old != new:
            found.append(f"{name}: {old} -> {new}")
    return found


@dataclass(frozen=True)
class Grant:
    """Access of a user to the objects of a container through one storlet."""

    user: str
    storlet: str


@dataclass(frozen=True)
class Manifest:
    """The declaration of a plain storlet file.

    :param limits: by the name of ``X-Object-Meta-Storlet-<limit>``, such as ``memory``.
    """

    main: str
    language: str
    dependencies: Sequence[str] = ()
    language_version: str = ""
    input_types: Sequence[str] = ()
    output_type: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        """The metadata of the upload.

        :raises ConfigurationError: a name would be taken for several.
        """
        faults = [
            f"dependency {each!r}: a comma separates names: choose another name"
            for each in self.dependencies
            if "," in each
        ]
        if faults:
            raise ConfigurationError(faults)
        found = {
            "Language": self.language,
            "Interface-Version": "1.0",
            "Object-Metadata": "no",
            "Main": self.main,
            "Dependency": ",".join(self.dependencies),
            "Language-Version": self.language_version,
            "Input-Type": ",".join(self.input_types),
            "Output-Type": self.output_type,
            **self.limits,
        }
        return {_META + name: value for name, value in found.items() if value}


@dataclass(frozen=True)
class Invocation:
    """A request to run a storlet.

    :param path: ``container/object``.
    :param parameters: sent as headers, so that access logs do not have them, and percent-encoded;
        one with a colon in its name, or without a name, is sent in the query.
    :param resources: further inputs, each ``container/object``.
    :param outputs: objects for the storlet's further outputs, each ``container/object``.
    :param limits: lowered limits by name, such as ``timeout-total``.
    :param if_match: ETag of the only object that is read.
    :param if_version: hash of the only version that runs, from the record of a run.
    :param if_resources: ETag of the only object that is read for each of ``resources``.
    """

    storlet: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    byte_range: str = ""
    resources: Sequence[str] = ()
    limits: Mapping[str, str] = field(default_factory=dict)
    on_proxy: bool = False
    keep_log: bool = False
    outputs: Sequence[str] = ()
    if_match: str = ""
    if_version: str = ""
    if_resources: Sequence[str] = ()

    def call(self, method: str, headers: Mapping[str, str], body: Body = None) -> Call:
        sent = {"X-Run-Storlet": name_of_runs(self.storlet), "Accept": "*/*", **headers}
        # The server decodes the whole value before it looks for the colon.
        in_headers = {k: v for k, v in self.parameters.items() if k.strip() and ":" not in k}
        for number, (key, value) in enumerate(in_headers.items(), 1):
            sent[f"X-Storlet-Parameter-{number}"] = quote(f"{key}:{value}", safe=_PLAIN)
        if self.byte_range:
            value = self.byte_range
            sent["X-Storlet-Range"] = value if "=" in value else f"bytes={value}"
        if self.resources:
            sent["X-Storlet-Extra-Resources"] = _path_list(self.resources)
        if self.if_resources:
            sent["X-Storlet-If-Resources"] = ",".join(self.if_resources)
        if self.outputs:
            sent["X-Storlet-Output"] = _path_list(self.outputs)
        sent.update({f"X-Storlet-Limit-{name}": f"{value}" for name, value in self.limits.items()})
        if self.on_proxy:
            sent["X-Storlet-Run-On-Proxy"] = ""
        if self.keep_log:
            sent["X-Storlet-Generate-Log"] = "true"
        if self.if_match:
            sent["If-Match"] = f'"{self.if_match}"'
        if self.if_version:
            sent["X-Storlet-If-Version"] = self.if_version
        query = tuple((k, v) for k, v in self.parameters.items() if k not in in_headers)
        return Call(method, object_path(self.path), sent, query, body, is_streamed=method == "GET")


def _path_list(paths: Sequence[str]) -> str:
    """Objects in a header; a comma in a name would begin another one."""
    return ",".join(quote("/" + "/".join(object_path(path))) for path in paths)


def object_path(path: str) -> tuple[str, str]:
    """Container and object of ``container/object``."""
    container, _, name = path.lstrip("/").partition("/")
    if not container or not name:
        raise ConfigurationError([f"{path!r} is not an object: write container/object"])
    return container, name


def name_of_runs(name: str) -> str:
    """The name that runs, grants and records have for a storlet, also for a bundle's object.

    Lists have the names of the objects.
    """
    return name.removesuffix(BUNDLE)


def container_name(value: str) -> str:
    """The name of a container that is written as ``container`` or ``container/``."""
    name = value.strip("/")
    if not name or "/" in name:
        raise ConfigurationError([f"{value!r} is not a container: write its name only"])
    return name


def language_of(name: str) -> str:
    """The language of a storlet by its file name; empty if unknown."""
    return languages.name_of_suffix(PurePosixPath(name).suffix)


# --- the cluster and the account ------------------------------------------------------------------


def info(session: Session) -> Flow[Info]:
    """The cluster's description, which is requested each time; :func:`known_info` keeps it.

    :raises StorletsError: the cluster has no storlets.
    """
    account = yield from session.account()
    parts = urlsplit(account.url)
    url = f"{parts.scheme}://{parts.netloc}/info"
    answer = yield from session.exchange(Call("GET", url=url))
    try:
        described = answer.document()
    except BrokenAnswer:
        raise StorletsError(f"{url}: not a description of a Swift cluster") from None
    if "storlet_handler" not in described:
        raise StorletsError(f"{parts.netloc} runs no storlets: /info has no storlet_handler")
    found = session.cluster = Info.of(described["storlet_handler"])
    return found


def known_info(session: Session) -> Flow[Info]:
    """The cluster's description, which is requested once in ten minutes for all operations of a
    session.
    """
    known: Info | None = session.cluster
    return known or (yield from info(session))


def info_that(session: Session, has: Callable[[Info], bool]) -> Flow[Info]:
    """As :func:`known_info`, requested again if the kept one lacks a feature: a cluster may have
    been upgraded meanwhile.
    """
    is_kept = session.cluster is not None
    cluster = yield from known_info(session)
    return cluster if has(cluster) or not is_kept else (yield from info(session))


def _info_with(session: Session, feature: str, text: str) -> Flow[Info]:
    """The description of a cluster that has a feature.

    :raises ConfigurationError: it has not: an older release would take the request for another.
    """
    cluster = yield from info_that(session, lambda each: feature in each.raw)
    if feature not in cluster.raw:
        raise ConfigurationError([f"this cluster has no {text}: its release is older"])
    return cluster


def is_enabled(session: Session) -> Flow[bool]:
    """Whether the account may use storlets."""
    answer = yield from session.exchange(Call("HEAD"))
    return says_enabled(answer)


def says_enabled(answer: Answer) -> bool:
    """Whether the headers of an account say that it may use storlets."""
    return answer.headers.get("x-account-meta-storlet-enabled", "").lower() in _TRUE


_TRUE = frozenset(("true", "1", "yes", "on", "t", "y"))


def enable(
    session: Session, records: str = "", *, check: bool | None = None
) -> Flow[tuple[str, ...]]:
    """Enable storlets for the account and create its containers; the names of the new ones.

    :param records: the runs that are recorded: ``all``, ``failures`` or ``none``; empty: as before.
    :param check: whether all uploads of storlets are checked; ``None``: as before.
    :raises ConfigurationError: the cluster has no such setting.
    """
    cluster = yield from known_info(session)
    headers = {"X-Account-Meta-Storlet-Enabled": "True"}
    if records:
        cluster = yield from _info_with(session, "records", "records of runs")
        headers["X-Account-Meta-Storlet-Records"] = records
    if check is not None:
        cluster = yield from _info_with(session, "upload_check", "check of uploads")
        headers["X-Account-Meta-Storlet-Check"] = str(check).lower()
    yield from session.exchange(Call("POST", headers=headers, body=b""))
    created = []
    containers = (cluster.storlet_container, cluster.dependency_container, cluster.log_container)
    for name in containers:
        answer = yield from session.exchange(Call("PUT", (name,), body=b""))
        if answer.status == 201:
            created.append(name)
    return tuple(created)


# --- storlets -------------------------------------------------------------------------------------


def list_storlets(session: Session) -> Flow[list[Storlet]]:
    cluster = yield from known_info(session)
    # Objects in folders are versions of bundles, and others that are no storlets.
    container = cluster.storlet_container
    rows = yield from listing(session, container, delimiter="/")
    found = yield from together(_head(session, container, row["name"]) for row in rows)
    return [each for each in found if each is not None]


def show(session: Session, name: str) -> Flow[Storlet]:
    """One storlet; a bundle has its own name, or that of its object.

    :raises NotThere: there is none.
    """
    cluster = yield from known_info(session)
    for each in _objects_of(name):
        found = yield from _head(session, cluster.storlet_container, each)
        if found is not None:
            return found
    raise (yield from _missing(session, cluster, name))


def _missing(session: Session, cluster: Info, name: str, kind: str = "storlet") -> Flow[NotThere]:
    """The error for a storlet that does not exist, with the nearest name.

    :param kind: ``storlet``, or ``bundle``: a plain file is none.
    """
    if name.startswith(LIBRARY):
        return NotThere(f"{name} is of the library: 'storlet library {name}' shows it")
    query = (("format", "json"), ("limit", str(_PAGE)), ("delimiter", "/"))
    call = Call("GET", (cluster.storlet_container,), query=query)
    answer = yield from session.exchange(call, (_FORBIDDEN, _NOT_FOUND))
    rows = answer.document() if answer.status not in (_FORBIDDEN, _NOT_FOUND) else []
    objects = [row["name"] for row in rows if "name" in row]
    if kind == "bundle" and name in objects:
        return NotThere(f"{name} is a plain file: only bundles ('storlet build') have versions")
    known = [name_of_runs(each) for each in objects]
    near = difflib.get_close_matches(name_of_runs(name), known, 1)
    hint = f"did you mean {near[0]}?" if near else "'storlet list' has all of the account"
    return NotThere(f"there is no {kind} {name}: {hint}")


def _objects_of(name: str) -> tuple[str, ...]:
    """The objects that a storlet of this name can be."""
    _require_name(name)
    return (name,) if name.endswith(BUNDLE) else (name, name + BUNDLE)


def _bundle_object(name: str) -> str:
    """The object of a bundle, which is named as in :func:`show`."""
    _require_name(name)
    return name_of_runs(name) + BUNDLE


def _require_name(name: str) -> None:
    """Refuse an empty name, such as that of an unset variable of a shell.

    A request for it would be one for the container.
    """
    if not name:
        raise ConfigurationError(["the name of the storlet is empty"])


def _head(session: Session, container: str, name: str) -> Flow[Storlet | None]:
    call = Call("HEAD", (container, name), {"X-Newest": "true"})
    answer = yield from session.exchange(call, (_NOT_FOUND,))
    return None if answer.status == _NOT_FOUND else _storlet(name, answer)


def _storlet(name: str, answer: Answer) -> Storlet:
    prefix = _META.lower()
    declared = {
        key[len(prefix) :]: value for key, value in answer.headers.items() if key.startswith(prefix)
    }
    for key in ("interface-version", "object-metadata"):
        declared.pop(key, None)
    listed = declared.pop("dependency", "")
    return Storlet(
        name=name,
        # The engine ignores the case, too.
        language=declared.pop("language", "").lower(),
        main=declared.pop("main", ""),
        size=int(answer.headers.get("content-length") or 0),
        modified=_utc(answer.headers.get("last-modified", "")),
        etag=answer.headers.get("etag", "").strip('"'),
        dependencies=tuple(each.strip() for each in listed.split(",") if each.strip()),
        declared=declared,
    )


def _utc(value: str) -> str:
    """A date of HTTP in a form that sorts."""
    try:
        return f"{parsedate_to_datetime(value):%Y-%m-%d %H:%M:%S}"
    except (TypeError, ValueError):  # Python 3.9 raises the first
        return value


def deploy(
    session: Session,
    name: str,
    code: Content,
    manifest: Manifest,
    dependencies: Mapping[str, tuple[Content, str]],
    *,
    check: bool | None = None,
) -> Flow[Deployed]:
    """Upload dependencies, then the storlet; each proxy runs the new code once it has answered.

    :param dependencies: content and file mode (octal) by name.
    :param check: as :func:`_check_headers`.
    """
    _require_name(name)
    checked = yield from _check_headers(session, check)
    cluster = yield from known_info(session)
    before = yield from _head(session, cluster.storlet_container, name)
    uploaded = []
    for each, (content, mode) in dependencies.items():
        path = (cluster.dependency_container, each)
        uploaded += yield from _upload_dependency(session, path, content, mode)
    sent = {**manifest.headers(), **checked}
    try:
        yield from _upload(session, cluster.storlet_container, name, code, sent)
    except Refused as error:
        # The server reports that nothing was changed: it knows of this request only.
        kept = [f"changed before that: {each}" for each in uploaded]
        error.restate("\n".join([error.message.rstrip("\n"), *kept]))
        raise
    after = yield from _head(session, cluster.storlet_container, name)
    if after is None or after.etag != md5_of(code):
        raise StorletsError(f"{name} was replaced by another upload at the same time: deploy again")
    return Deployed(before, after, tuple(uploaded))


def _upload_dependency(
    session: Session, path: tuple[str, str], content: Content, mode: str
) -> Flow[list[str]]:
    """Upload a dependency; what has changed as a line, if it has and the caller may know it."""
    call = Call("HEAD", path, {"X-Newest": "true"})
    answer = yield from session.exchange(call, (_NOT_FOUND, _FORBIDDEN))
    headers = {f"{_META}Dependency-Version": "1", f"{_META}Dependency-Permissions": mode}
    yield from _upload(session, *path, content, headers)
    if answer.status == _NOT_FOUND:
        return [f"dependency {path[1]}: new"]
    if answer.status == _FORBIDDEN:
        return []
    before = _storlet(path[1], answer)
    old_mode = before.declared.get("dependency-permissions", mode)
    changes = [f"{before.size:,} -> {size_of(content):,} bytes"]
    if before.etag == md5_of(content):
        changes = []
    if old_mode != mode:
        changes.append(f"mode {old_mode} -> {mode}")
    return [f"dependency {path[1]}: {', '.join(changes)}"] if changes else []


def _upload(
    session: Session, container: str, name: str, content: Content, headers: Mapping[str, str]
) -> Flow[None]:
    sent = {"Content-Type": "application/octet-stream", "ETag": md5_of(content), **headers}
    yield from session.exchange(Call("PUT", (container, name), sent, body=content))


def _check_headers(session: Session, check: bool | None) -> Flow[dict[str, str]]:
    """The header of an upload for the cluster's check of its code.

    :param check: ``None``: if the cluster has such a check.
    :raises ConfigurationError: ``check`` is true, and the cluster has none.
    """
    cluster = yield from info_that(session, lambda each: check is None or _checks_uploads(each))
    if _checks_uploads(cluster):
        return {"X-Storlet-Check": "false" if check is False else "true"}
    if check:
        raise ConfigurationError(["this cluster does not check uploads: leave out the check"])
    return {}


def _checks_uploads(cluster: Info) -> bool:
    return bool(cluster.raw.get("upload_check"))


def delete(session: Session, name: str) -> Flow[None]:
    """Delete a storlet, which is named as in :func:`show`."""
    cluster = yield from known_info(session)
    for each in _objects_of(name):
        call = Call("DELETE", (cluster.storlet_container, each))
        answer = yield from session.exchange(call, (_NOT_FOUND,))
        if answer.status != _NOT_FOUND:
            return
    raise (yield from _missing(session, cluster, name))


def download(session: Session, path: tuple[str, str], if_match: str = "") -> Flow[Answer]:
    """An object, streamed.

    :param if_match: the only ETag that it may have.
    """
    headers = {"If-Match": f'"{if_match}"'} if if_match else {}
    answer = yield from session.exchange(Call("GET", path, headers, is_streamed=True))
    return answer


def download_version(session: Session, name: str, version: BundleVersion) -> Flow[Answer]:
    """The bundle of a kept version."""
    holder = name + BUNDLE
    if not version.current:
        holder = f"versions/{name}/{version.number}-{version.sha256[:12]}"
    answer = yield from download_storlet(session, holder)
    return answer


def download_storlet(session: Session, name: str) -> Flow[Answer]:
    """The file of a storlet, which is named as in :func:`show`, streamed.

    ``NAME@NUMBER`` is a version of a bundle.
    """
    cluster = yield from known_info(session)
    for each in _objects_of(name):
        call = Call("GET", (cluster.storlet_container, each), is_streamed=True)
        answer = yield from session.exchange(call, (_NOT_FOUND,))
        if answer.status != _NOT_FOUND:
            return answer
    numbered = _NUMBERED.fullmatch(name)
    if not numbered:
        raise (yield from _missing(session, cluster, name))
    bundle = name_of_runs(numbered[1])
    kept = yield from versions(session, bundle)
    for version in kept:
        if version.number == int(numbered[2]):
            return (yield from download_version(session, bundle, version))
    known = ", ".join(str(version.number) for version in reversed(kept))
    raise NotThere(f"bundle {bundle} has no version {numbered[2]}; there are {known}")


def listing(
    session: Session, container: str, prefix: str = "", delimiter: str = ""
) -> Flow[list[dict[str, Any]]]:
    """All objects of a container; empty if it does not exist.

    :param delimiter: names that have it after the prefix are left out.
    :raises BrokenAnswer: the pages do not come to an end.
    """
    rows: list[dict[str, Any]] = []
    marker = ""
    while True:
        query = [("format", "json"), ("limit", str(_PAGE)), ("prefix", prefix)]
        query += [("delimiter", delimiter)] if delimiter else []
        query += [("marker", marker)] if marker else []
        answer = yield from session.exchange(
            Call("GET", (container,), query=tuple(query)), (_NOT_FOUND,)
        )
        page = answer.document() if answer.status != _NOT_FOUND else []
        rows += [row for row in page if "name" in row]
        if len(page) < _PAGE:
            return rows
        last = page[-1].get("name") or page[-1]["subdir"]
        if last <= marker:
            raise BrokenAnswer(f"the listing of {container} does not continue after {marker}")
        marker = last


def some_names(
    session: Session, path: tuple[str, ...], prefix: str, delimiter: str = ""
) -> Flow[list[str]]:
    """Up to a hundred names of the account, or of a container, that begin with ``prefix``.

    None if the caller may not list them.  Those of folders end with ``delimiter``.
    """
    query = [("format", "json"), ("limit", str(_SOME)), ("prefix", prefix)]
    query += [("delimiter", delimiter)] if delimiter else []
    answer = yield from session.exchange(
        Call("GET", path, query=tuple(query)), (_FORBIDDEN, _NOT_FOUND)
    )
    page = [] if answer.status in {_FORBIDDEN, _NOT_FOUND} else answer.document()
    return [str(row.get("name") or row["subdir"]) for row in page]


# --- objects and invocations ----------------------------------------------------------------------


def upload(session: Session, path: str, body: Body, content_type: str) -> Flow[bool]:
    """Store ``body`` as ``container/object``; whether the container was created for it."""
    container, name = object_path(path)
    sent = body_of(body)
    # A user with write access to the container only may not create one.
    made = yield from session.exchange(Call("PUT", (container,), body=b""), (_FORBIDDEN,))
    headers = {"Content-Type": content_type} if content_type else {}
    yield from session.exchange(Call("PUT", (container, name), headers, body=sent))
    return made.status == _CREATED


def run(session: Session, invocation: Invocation) -> Flow[Answer]:
    """GET through a storlet; the answer is streamed."""
    answer = yield from _exchange(session, invocation.call("GET", {}), (invocation.storlet,))
    if "content-length" not in answer.headers and "transfer-encoding" not in answer.headers:
        raise BrokenAnswer(f"{invocation.storlet}: the answer has no length: its end is unknown")
    return answer


def library(session: Session) -> Flow[list[Mapping[str, Any]]]:
    """The storlets that every account has, with versions and parameters."""
    answer = yield from session.exchange(Call("GET", query=(("storlet-library", ""),)))
    found: list[Mapping[str, Any]] = answer.document()
    return found


def distribute(session: Session, document: Mapping[str, Any]) -> Flow[Answer]:
    """Run a storlet on many objects; the answer is streamed."""
    headers = {
        "X-Run-Storlet": "std:distributed",
        "Accept": "application/x-ndjson",
        "Content-Type": "application/json",
    }
    # A text that is not UTF-8 fails here, as in any other request.
    body = json.dumps(document, ensure_ascii=False).encode()
    call = Call("POST", headers=headers, body=body, is_streamed=True)
    parts = [document.get(each) for each in ("split", "merge")]
    storlets = [str(each.get("storlet", "")) for each in parts if isinstance(each, Mapping)]
    answer = yield from _exchange(session, call, storlets)
    if "content-length" not in answer.headers and "transfer-encoding" not in answer.headers:
        raise BrokenAnswer("std:distributed: the answer has no length: its end is unknown")
    return answer


def copy(session: Session, invocation: Invocation, target: str) -> Flow[Answer]:
    """Store the output of a storlet on an object as ``target``."""
    container, name = object_path(target)
    destination = Call("", (container, name)).target("").lstrip("/")
    call = invocation.call("COPY", {"Destination": destination})
    return (yield from _exchange(session, call, (invocation.storlet,)))


def put(session: Session, invocation: Invocation, body: Body, content_type: str) -> Flow[Answer]:
    """Store the output of a storlet on ``body``."""
    headers = {"Content-Type": content_type} if content_type else {}
    call = invocation.call("PUT", headers, body_of(body))
    return (yield from _exchange(session, call, (invocation.storlet,)))


def _exchange(session: Session, call: Call, storlets: Sequence[str]) -> Flow[Answer]:
    """The answer to a request for storlets of these names.

    :raises NotThere: the account lacks one of them; the error has the nearest name.
    """
    try:
        return (yield from session.exchange(call))
    except Refused as refused:
        if refused.code == _NO_STORLET:
            yield from _require_storlets(session, storlets)
        raise


def _require_storlets(session: Session, storlets: Sequence[str]) -> Flow[None]:
    """Raise :class:`NotThere` for the first storlet that the account lacks.

    The library, and a version that is missing, are the server's to explain.  A caller who may not
    see the storlets keeps the server's answer, too.
    """
    for each in storlets:
        name = each.partition("@")[0]
        try:
            if not name.startswith(LIBRARY):
                yield from show(session, name)
        except Refused:
            return


# --- grants, rules, logs --------------------------------------------------------------------------


def grants(session: Session, container: str) -> Flow[list[Grant]]:
    answer = yield from session.exchange(Call("HEAD", (container_name(container),)))
    listed = answer.headers.get("x-storlet-container-read", "")
    pairs = [each.strip().rpartition("=") for each in listed.split(",") if each.strip()]
    return [Grant(unquote(user), unquote(storlet)) for user, _, storlet in pairs]


def grant(session: Session, container: str, given: Grant) -> Flow[str]:
    """Give access; the server's warning, if the grant cannot have an effect."""
    storlet = name_of_runs(given.storlet)
    headers = {"X-Storlet-Container-Read": given.user, "X-Storlet-Name": storlet}
    call = Call("POST", (container_name(container),), headers, body=b"")
    answer = yield from session.exchange(call)
    return answer.headers.get("x-storlet-warning", "")


def revoke(session: Session, container: str, given: Grant) -> Flow[None]:
    """Remove access.

    :raises NotThere: the container has no such grant.  The server accepts the request, so a
        misspelt user would keep the access without a word.
    """
    known = yield from grants(session, container)
    if given not in known:  # one for the object of a bundle is of an older release
        given = Grant(given.user, name_of_runs(given.storlet))
    if given not in known:
        raise NotThere(
            f"{given.user} has no grant for {given.storlet} on {container}:"
            f" 'storlet grants {container}' lists those that exist"
        )
    headers = {"X-Remove-Storlet-Container-Read": given.user, "X-Storlet-Name": given.storlet}
    call = Call("POST", (container_name(container),), headers, body=b"")
    yield from session.exchange(call)


def rules(session: Session) -> Flow[str | None]:
    """The text of the rules in force, or ``None``."""
    cluster = yield from known_info(session)
    path = (cluster.rules_container, cluster.rules_object)
    answer = yield from session.exchange(Call("GET", path), (_NOT_FOUND,))
    return None if answer.status == _NOT_FOUND else answer.text


def put_rules(session: Session, text: bytes, *, accept_warnings: bool = False) -> Flow[str]:
    """Check rules and put them in force; the server's report.

    :raises Refused: they have errors, or warnings that are not accepted.
    """
    cluster = yield from known_info(session)
    yield from session.exchange(Call("PUT", (cluster.rules_container,), body=b""))
    headers = {ACCEPT_WARNINGS: "true"} if accept_warnings else {}
    path = (cluster.rules_container, cluster.rules_object)
    answer = yield from session.exchange(Call("PUT", path, headers, body=text))
    return answer.text


def delete_rules(session: Session) -> Flow[None]:
    cluster = yield from known_info(session)
    path = (cluster.rules_container, cluster.rules_object)
    yield from session.exchange(Call("DELETE", path), (_NOT_FOUND,))


def explain(session: Session, method: str, path: str) -> Flow[str]:
    """The decision of the rules on a request, which is not performed."""
    call = Call(method, object_path(path), {"X-Storlet-Explain": "true"})
    answer = yield from session.exchange(call)
    return answer.text


def logs(session: Session, storlet: str) -> Flow[list[dict[str, Any]]]:
    """The stored logs of a storlet: name and time of each object, the newest last.

    :raises NotThere: it has none, and the account has no such storlet.
    """
    _require_name(storlet)
    cluster = yield from known_info(session)
    rows = yield from _log_rows(session, cluster, name_of_runs(storlet))
    if not rows:
        yield from _require_storlets(session, (storlet,))
    return sorted(rows, key=lambda row: row["last_modified"])


def _log_rows(session: Session, cluster: Info, name: str) -> Flow[list[dict[str, Any]]]:
    """The stored logs of a storlet, also of its runs as ``NAME@NUMBER``."""
    rows = yield from listing(session, cluster.log_container, f"{name}/")
    numbered = yield from listing(session, cluster.log_container, f"{name}@")
    of_version = re.compile(re.escape(name) + r"@[0-9]+/", re.ASCII)
    return [*rows, *(row for row in numbered if of_version.match(row["name"]))]


def log(session: Session, storlet: str, invocation: str) -> Flow[str]:
    """One stored log."""
    cluster = yield from known_info(session)
    name, file = name_of_runs(storlet), f"{invocation}.log"
    answer = yield from _log_object(session, cluster, f"{name}/{file}")
    if answer.status == _NOT_FOUND:
        rows = yield from _log_rows(session, cluster, name)
        for row in rows:
            if row["name"].rpartition("/")[2] == file:
                answer = yield from _log_object(session, cluster, row["name"])
    if answer.status == _NOT_FOUND:
        yield from _require_storlets(session, (storlet,))
        raise NotThere(
            f"{storlet} has no log {invocation}: 'storlet logs {storlet}' lists those stored, and"
            f" 'storlet show-run {invocation}' has the end of the log of a recorded run"
        )
    return answer.text


def _log_object(session: Session, cluster: Info, name: str) -> Flow[Answer]:
    call = Call("GET", (cluster.log_container, name))
    return (yield from session.exchange(call, (_NOT_FOUND,)))


# --- bundles --------------------------------------------------------------------------------------

#: The end of the name of a bundle's object.
BUNDLE = ".storlet"


@dataclass(frozen=True)
class BundleVersion:
    """A deployed version of a bundle.

    :param number: the server's, for ``NAME@NUMBER``.
    :param version: the author's.
    :param previous: whether it was current before the current one; ``None`` if the cluster, of an
        older release, does not say it.
    """

    number: int
    version: str
    sha256: str
    bytes: int
    time: str
    current: bool
    previous: bool | None = None


def deploy_bundle(
    session: Session, name: str, packed: bytes, *, check: bool | None = None
) -> Flow[int]:
    """Upload a bundle under ``name``; the number of its version, which is current then.

    It is a new version unless the current one has the same bytes.

    :param check: as :func:`_check_headers`.
    """
    _require_name(name)
    cluster = yield from _info_with(session, "bundles", "bundles")
    path = (cluster.storlet_container, name + BUNDLE)
    checked = yield from _check_headers(session, check)
    call = Call("PUT", path, checked, body=(yield from _accepted(session, packed)))
    try:
        answer = yield from session.exchange(call)
    except Refused as refused:
        # One proxy of several, in the middle of an upgrade, or after one that was taken back.
        if refused.code != _NO_BUNDLE or _OLDER_FOLDERS not in refused.message:
            raise
        answer = yield from session.exchange(replace(call, body=_without_source(packed)))
    number = answer.headers.get("x-storlet-version", "")
    if not number.isdecimal():
        raise BrokenAnswer(f"{name}: the answer has no number of a version")
    return int(number)


def _accepted(session: Session, packed: bytes) -> Flow[bytes]:
    """A bundle as the cluster accepts it: without the source, if its release is older."""
    cluster = yield from info_that(session, _takes_source)
    return packed if _takes_source(cluster) else _without_source(packed)


def _takes_source(cluster: Info) -> bool:
    return bool(cluster.raw.get("bundles", {}).get("source"))


def _without_source(packed: bytes) -> bytes:
    # Other operations need no zip files.
    from storlet_client.bundle import archive  # noqa: PLC0415

    return archive.without_source(packed)


def versions(session: Session, name: str) -> Flow[list[BundleVersion]]:
    """The versions of a bundle that the cluster keeps, newest first."""
    described = yield from _described(session, name)
    return [_version(row) for row in described["versions"]]


def engine_range(session: Session, name: str) -> Flow[str]:
    """The engine API versions that the current version of a bundle works with, such as ``>=1.0``.

    Empty if the cluster does not say it: its release is older.
    """
    described = yield from _described(session, name)
    return str(described.get("engine", ""))


def _described(session: Session, name: str) -> Flow[Mapping[str, Any]]:
    """A bundle, as the cluster describes it."""
    cluster = yield from _info_with(session, "bundles", "bundles")
    path = (cluster.storlet_container, _bundle_object(name))
    call = Call("GET", path, query=(("storlet-versions", ""),))
    answer = yield from session.exchange(call, (_NOT_FOUND,))
    if answer.status == _NOT_FOUND:
        raise (yield from _missing(session, cluster, name, "bundle"))
    document: Mapping[str, Any] = answer.document()
    return document


def _version(row: Mapping[str, Any]) -> BundleVersion:
    """A later release may add values."""
    return BundleVersion(
        **{each.name: row[each.name] for each in fields(BundleVersion) if each.name in row}
    )


def version_before(name: str, kept: Sequence[BundleVersion]) -> BundleVersion:
    """The version that was current before the last deployment or rollback.

    :param kept: as :func:`versions`.
    :raises NotThere: there is none.
    """
    current = next((each.number for each in kept if each.current), 0)
    found = [each for each in kept if each.previous]
    if all(each.previous is None for each in kept):  # an older release: the next lower number
        earlier = [each for each in kept if each.number < current]
        found = sorted(earlier, key=lambda each: each.number)[-1:]
    if found:
        return found[0]
    numbers = ", ".join(str(each.number) for each in sorted(kept, key=lambda each: each.number))
    raise NotThere(
        f"no kept version of bundle {name} was current before {current}; there are {numbers}:"
        f" 'storlet rollback {name} NUMBER' takes any of them"
    )


def roll_back(session: Session, name: str, number: int | None = None) -> Flow[int]:
    """Make an earlier version of a bundle the current one; its number.

    :param number: ``None``: that of :func:`version_before`.
    :raises NotThere: the account has no such bundle, or no version was current before.
    """
    if number is None:
        number = version_before(name, (yield from versions(session, name))).number
    cluster = yield from _info_with(session, "bundles", "bundles")
    path = (cluster.storlet_container, _bundle_object(name))
    query = (("storlet-version", str(number)),)
    try:
        yield from session.exchange(Call("POST", path, query=query, body=b""))
    except Refused as refused:
        if refused.code == _NO_STORLET and (yield from _head(session, *path)) is None:
            raise (yield from _missing(session, cluster, name, "bundle")) from refused
        raise
    return number


# --- records of runs ------------------------------------------------------------------------------


def selection(storlet: str, outcome: str, since: str = "", until: str = "") -> dict[str, str]:
    """The parameters of a request for records, without those that are empty."""
    given = {"storlet": name_of_runs(storlet), "outcome": outcome, "since": since, "until": until}
    return {key: value for key, value in given.items() if value}


def runs(
    session: Session, selection: Mapping[str, str], most: int
) -> Flow[list[Mapping[str, Any]]]:
    """Records of runs, newest first.

    :param selection: parameters of the request: ``storlet``, ``outcome``, ``since``, ``until``.
    :param most: the maximum number of records.
    :raises NotThere: the storlet has none, and the account has no such storlet.
    """
    yield from _info_with(session, "records", "records of runs")
    found: list[Mapping[str, Any]] = []
    marker = ""
    while len(found) < most:
        query = [("storlet-runs", ""), *selection.items()]
        query += [("limit", str(min(_PAGE, most - len(found))))]
        query += [("marker", marker)] if marker else []
        answer = yield from session.exchange(Call("GET", query=tuple(query)))
        found += answer.document()
        marker = answer.headers.get("x-storlet-runs-next", "")
        if not marker:
            break
    if not found and "storlet" in selection:
        yield from _require_storlets(session, (selection["storlet"],))
    return found


def run_record(session: Session, invocation: str) -> Flow[Mapping[str, Any]]:
    """The record of one run."""
    if not invocation:
        raise ConfigurationError(
            ["the id of the run is empty: 'storlet runs' lists those recorded"]
        )
    yield from _info_with(session, "records", "records of runs")
    query = (("storlet-runs", ""), ("id", invocation))
    answer = yield from session.exchange(Call("GET", query=query), (_NOT_FOUND,))
    if answer.status == _NOT_FOUND:
        raise NotThere(
            f"there is no record of {invocation}: records are written up to five seconds after a"
            " run, and by default of failures only; 'storlet enable --records all' changes that"
        )
    found: Mapping[str, Any] = answer.document()
    return found


def follow_logs(session: Session, selection: Mapping[str, str]) -> Flow[Answer]:
    """As :func:`follow_runs`, with lines of the logs of running storlets.

    A cluster of an older release sends records only.
    """
    cluster = yield from info_that(session, _follows_lines)
    lines = {"lines": ""} if _follows_lines(cluster) and "outcome" not in selection else {}
    return (yield from follow_runs(session, {**selection, **lines}))


def _follows_lines(cluster: Info) -> bool:
    return bool(cluster.raw.get("records", {}).get("follows_lines"))


def follow_runs(session: Session, selection: Mapping[str, str]) -> Flow[Answer]:
    """A stream with a line for each record of a run that ends from now on.

    :raises NotThere: the account lacks the storlet of ``selection``.  A stream of a misspelt name
        would stay empty without a word.
    """
    yield from _info_with(session, "records", "records of runs")
    if "storlet" in selection:
        yield from _require_storlets(session, (selection["storlet"],))
    query = (("storlet-runs", ""), ("follow", ""), *selection.items())
    answer = yield from session.exchange(Call("GET", query=query, is_streamed=True))
    return answer


# --- secrets --------------------------------------------------------------------------------------


def secrets(session: Session) -> Flow[list[Mapping[str, str]]]:
    """The names of the account's secrets, each with the time when it was set."""
    yield from _info_with(session, "secrets", "secrets of accounts")
    answer = yield from session.exchange(Call("GET", query=(("storlet-secrets", ""),)))
    found: list[Mapping[str, str]] = answer.document()
    return found


def set_secret(session: Session, name: str, value: bytes) -> Flow[bool]:
    """Set a secret; whether it is a new one.

    :raises ConfigurationError: the name, or the length of the value, is not possible.
    """
    _require_secret_name(name)
    least, most = SECRET_BYTES
    # A storlet may remove the space, and the server finds the rest in its logs.
    own = len(value.strip())
    if own < least or len(value) > most:
        size = own if own < least else len(value)
        wanted = f"want {least} to {most}, without space at its start and end"
        raise ConfigurationError([f"the value has {size} bytes: {wanted}"])
    yield from _info_with(session, "secrets", "secrets of accounts")
    headers = {"Content-Type": "application/octet-stream"}
    query = (("storlet-secrets", name),)
    answer = yield from session.exchange(Call("POST", headers=headers, query=query, body=value))
    return answer.status == _CREATED


def delete_secret(session: Session, name: str) -> Flow[None]:
    """Delete a secret.

    :raises NotThere: there is none of this name.
    """
    _require_secret_name(name)
    yield from _info_with(session, "secrets", "secrets of accounts")
    call = Call("DELETE", query=(("storlet-secrets", name),))
    answer = yield from session.exchange(call, (_NOT_FOUND,))
    if answer.status == _NOT_FOUND:
        raise NotThere(f"there is no secret {name}: 'storlet secret list' has all names")


def _require_secret_name(name: str) -> None:
    if not SECRET_NAME.fullmatch(name):
        wanted = "want a lower-case letter, then at most 62 of a-z, 0-9 and '-'"
        raise ConfigurationError([f"secret {name!r}: {wanted}"])
