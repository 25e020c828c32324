"""Storlets and dependencies as objects of the account: upload checks, access, resolution to a
storlet version.

*Access* is decided by Swift: the container's read ACL, given to ``swift.authorize``.  *Resolution*
turns a name into a :class:`~storlet_middleware.engine.storlet_version.StorletVersion` with HEADs of
the storlet and its dependencies (newest replica).  The result is cached in Swift's memcached under
a *generation* of the account, which every write to the two containers replaces before and after it:
an upload takes effect for every request that begins after its answer.  Without memcached every
request resolves the storlet again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

from swift.common.utils import cache_from_env, close_if_possible

from storlet_middleware import errors, names
from storlet_middleware.catalog.bundle_store import BundleStore
from storlet_middleware.catalog.library import library_of
from storlet_middleware.catalog.manifests import (
    Manifest,
    ManifestError,
    read_dependency,
    read_storlet,
    records_faults,
)
from storlet_middleware.concurrency import spawn
from storlet_middleware.config import Config
from storlet_middleware.engine import limits
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.errors import (
    BackendFailed,
    CodeReplaced,
    InternalError,
    RegistrationInvalid,
    StorletDenied,
    StorletError,
    StorletNotFound,
    Unprocessable,
)
from storlet_middleware.wsgi import authorization, own_requests
from storlet_middleware.wsgi.account_info import CONTAINER_KEY_PREFIX
from storlet_middleware.wsgi.bodies import ObjectBody
from storlet_middleware.wsgi.swift_paths import ContainerPath, object_path
from storlet_middleware.wsgi.user_metadata import user_metadata

#: Bounds the age of a stale entry if a writer could not reach memcached.
_ENTRY_SECONDS: Final = 60
_GENERATION_SECONDS: Final = 86400
#: Longer than a Swift request may last; nothing is cached while the mark of a write stands.
_WRITING_SECONDS: Final = 120
#: Prefix of the key in ``swift.infocache`` under which a request keeps the cache of an account.
_CACHE_PREFIX: Final = "storlets-versions/"
#: Headers that make an object a link to others.
_LINKS: Final = ("X-Symlink-Target", "X-Object-Manifest")


class Catalog:
    """The storlets of all accounts, as seen by one proxy.

    :param app: the rest of the proxy pipeline.
    """

    def __init__(self, app: Any, config: Config) -> None:
        self._app = app
        self._config = config.storlet
        self._class_of = config.class_of
        #: The storlets that every account has.
        self.library = library_of(config)
        self._bundles = BundleStore(app, config.storlet.versions_kept)
        self.containers = (config.storlet.storlet_container, config.storlet.dependency_container)

    # --- uploads ----------------------------------------------------------------------------------

    @staticmethod
    def refuse_links(headers: Mapping[str, str]) -> None:
        """Refuse links: code is read with our rights, and a link may lead anywhere."""
        links = [name for name in _LINKS if headers.get(name)]
        if links:
            raise RegistrationInvalid(
                f"{', '.join(links)}: a storlet or a dependency cannot be a link to other objects"
            )

    def check_upload(
        self, account: str, container: str, name: str, headers: Mapping[str, str]
    ) -> None:
        """Refuse a storlet or a dependency whose manifest is not valid."""
        meta = user_metadata(headers, names.STORLET_META)
        faults = []
        if container == self._config.storlet_container and names.is_library(name):
            faults.append(
                f"storlet name {name!r}: names that begin with {names.LIBRARY} are those of the"
                " system library: choose another name"
            )
        try:
            if container == self._config.storlet_container:
                # Only uploads are checked for these; storlets that exist already stay usable.
                faults += limits.misspelt(meta) + self._excess(account, name, meta)
                faults += records_faults(meta)
                read_storlet(name, meta, self._config.languages)
            else:
                read_dependency(name, meta)
        except ManifestError as error:
            faults = error.faults + faults
        if faults:
            raise RegistrationInvalid("; ".join(faults))

    def _excess(self, account: str, name: str, meta: Mapping[str, str]) -> list[str]:
        values, _ = limits.declared(meta)
        return limits.above_maximum(values, names.STORLET_META, self._class_of(account, name))

    # --- access -----------------------------------------------------------------------------------

    def authorize(
        self, environ: dict[str, Any], version: str, account: str, storlet: str, container: str
    ) -> bool:
        """Raise unless the ACL of the storlet's container lets the caller read it.

        Returns whether the caller owns the account, and so may see the storlet's traceback.  The
        library has no ACL (:mod:`~storlet_middleware.catalog.library_callers`).

        :param container: the container of the request's object; its info is prefetched for Swift.
        """
        path = object_path(
            version, account, self._config.storlet_container, names.object_of(storlet)
        )
        if names.is_library(storlet):
            return authorization.is_owner(environ, path)
        self._cache_of(environ, account).prefetch(storlet, container)
        verdict = authorization.authorize(environ, self._app, "GET", path)
        if verdict.refusal is not None:
            raise StorletDenied(
                "Failed to verify access to the storlet. Either the storlet does not exist or you"
                " are not authorized to run the storlet.",
                status=verdict.refusal.status_int,
            )
        return verdict.is_owner

    # --- resolution -------------------------------------------------------------------------------

    def resolve(
        self, environ: dict[str, Any], version: str, account: str, storlet: str
    ) -> StorletVersion:
        """The current version of ``storlet``; access was checked before."""
        if names.is_library(storlet):
            return self.library.member(storlet).version_for(account)
        cache = self._cache_of(environ, account)
        generation, known = cache.get(storlet)
        if known is not None:
            return StorletVersion.from_text(known)
        return self._read_and_remember(environ, cache, generation, version, storlet)

    def resolve_again(
        self, environ: dict[str, Any], version: str, account: str, storlet: str
    ) -> StorletVersion:
        """The same, bypassing the cache: the version resolved before was replaced."""
        if names.is_library(storlet):
            return self.resolve(environ, version, account, storlet)
        cache = self._cache_of(environ, account)
        generation, _ = cache.get(storlet)
        return self._read_and_remember(environ, cache, generation, version, storlet)

    def _read_and_remember(
        self,
        environ: dict[str, Any],
        cache: _VersionCache,
        generation: str | None,
        version: str,
        storlet: str,
    ) -> StorletVersion:
        resolved = self._read(environ, version, cache.account, storlet)
        cache.put(storlet, generation, resolved.text)
        return resolved

    def cache_for_write(self, environ: dict[str, Any], account: str) -> _VersionCache:
        """The account's cache, for a write: see ``begin_write`` and ``end_write`` of it."""
        return self._cache_of(environ, account)

    def _cache_of(self, environ: dict[str, Any], account: str) -> _VersionCache:
        """The account's cache, one for each request."""
        known: dict[str, Any] = environ.setdefault("swift.infocache", {})
        key = _CACHE_PREFIX + account
        cache: _VersionCache | None = known.get(key)
        if cache is None:
            cache = known[key] = _VersionCache(environ, account, self._config.storlet_container)
        return cache

    def _read(
        self, environ: dict[str, Any], version: str, account: str, storlet: str
    ) -> StorletVersion:
        path = ContainerPath(version, account, self._config.storlet_container)
        if names.bundle_of(storlet):
            return self._bundles.resolve(environ, path, storlet)
        if storlet.endswith(names.BUNDLE_SUFFIX):
            run = storlet.removesuffix(names.BUNDLE_SUFFIX)
            raise StorletNotFound(f"a bundle is run by its name: {names.RUN_STORLET}: {run}")
        answer = self._head(environ, path, storlet)
        if answer.status_int == 404:
            raise StorletNotFound(
                f"there is no storlet {storlet} in container {self._config.storlet_container}"
            )
        _require_success(answer, f"storlet {storlet}")
        _require_own_bytes(answer, object_path(*path, storlet), f"storlet {storlet}")
        try:
            manifest = read_storlet(storlet, user_metadata(answer.headers), self._config.languages)
        except ManifestError as error:
            raise Unprocessable(
                f"storlet {storlet} is not usable: {error}", code=errors.STORLET_LOAD
            ) from error
        own = _code_file(self._config.storlet_container, storlet, answer, 0o444)
        return self._with_dependencies(environ, version, account, manifest, own)

    def uploaded(
        self,
        environ: dict[str, Any],
        version: str,
        account: str,
        headers: Mapping[str, str],
        own: CodeFile,
    ) -> StorletVersion:
        """The version that an upload of ``own`` with these headers will make."""
        manifest = read_storlet(own.name, user_metadata(headers), self._config.languages)
        return self._with_dependencies(environ, version, account, manifest, own)

    def stored_file(
        self, environ: dict[str, Any], version: str, account: str, storlet: str
    ) -> CodeFile | None:
        """The file of a storlet as it is stored; ``None`` if there is none."""
        path = ContainerPath(version, account, self._config.storlet_container)
        answer = self._head(environ, path, storlet)
        if answer.status_int == 404:
            return None
        _require_success(answer, f"storlet {storlet}")
        _require_own_bytes(answer, object_path(*path, storlet), f"storlet {storlet}")
        return _code_file(self._config.storlet_container, storlet, answer, 0o444)

    def _with_dependencies(
        self,
        environ: dict[str, Any],
        version: str,
        account: str,
        manifest: Manifest,
        own: CodeFile,
    ) -> StorletVersion:
        if manifest.is_program:
            own = replace(own, mode=0o555)
        path = (version, account, self._config.dependency_container)
        tasks = [spawn(self._head, environ, path, name) for name in manifest.dependencies]
        answers = [task.wait() for task in tasks]
        files = [own]
        faults = []
        for name, dependency in zip(manifest.dependencies, answers, strict=True):
            try:
                files.append(self._dependency(path, name, dependency))
            except Unprocessable as error:
                faults.append(str(error))
        if faults:
            raise Unprocessable("; ".join(faults), code=errors.STORLET_LOAD)
        return StorletVersion(
            account,
            own.name,
            manifest.language,
            manifest.language_version,
            manifest.main,
            tuple(files),
            manifest.limits,
            manifest.records,
            arguments=manifest.arguments,
            services=manifest.services,
            seekable=manifest.seekable,
            ranges=manifest.ranges,
            secrets=manifest.secrets,
        )

    def _dependency(self, path: tuple[str, str, str], name: str, answer: Any) -> CodeFile:
        if answer.status_int == 404:
            raise Unprocessable(
                f"dependency {name} is not in container {self._config.dependency_container}",
                code=errors.STORLET_LOAD,
            )
        _require_success(answer, f"dependency {name}")
        _require_own_bytes(answer, object_path(*path, name), f"dependency {name}")
        try:
            permissions = read_dependency(name, user_metadata(answer.headers)).permissions
        except ManifestError as error:
            raise Unprocessable(
                f"dependency {name} is not usable: {error}", code=errors.STORLET_LOAD
            ) from error
        # The sandbox's uid is "other" to the file: others get the owner's bits, without write.
        mode = 0o555 if permissions & 0o100 else 0o444
        return _code_file(self._config.dependency_container, name, answer, mode)

    def _head(self, environ: dict[str, Any], path: tuple[str, str, str], name: str) -> Any:
        newest = own_requests.NEWEST
        return own_requests.exchange(self._app, environ, "HEAD", object_path(*path, name), newest)


class _VersionCache:
    """Resolved storlets of an account in memcached; without memcached all methods work and cache
    nothing.

    All entries are on the server that has Swift's info of the storlet container, so one round trip
    reads everything needed before a storlet runs.  With a single server the round trip includes
    Swift's next look-up, the info of the object's container.  (With several servers another one
    holds that; ours may have a stale copy from a failover.)
    """

    def __init__(self, environ: dict[str, Any], account: str, container: str) -> None:
        self._memcache = cache_from_env(environ)
        self._of_request: dict[str, Any] = environ.setdefault("swift.infocache", {})
        self.account = account
        self._containers = f"{CONTAINER_KEY_PREFIX}{account}/"
        self._container_key = self._containers + container
        self._generation_key = f"storlets-generation/{account}"
        #: Generations and entries that were read ahead, by name of the storlet.
        self._prefetched: dict[str, tuple[Any, Any]] = {}

    def prefetch(self, storlet: str, container: str = "") -> None:
        """Prefetch the result of the next :meth:`get`, and for Swift the info of the containers."""
        if self._memcache:
            keys = [self._generation_key, self._entry_key(storlet), self._container_key]
            if container and len(getattr(self._memcache, "memcache_servers", ())) == 1:
                keys.append(self._containers + container)
            generation, entry, *containers = self._memcache.get_multi(
                keys, self._container_key
            ) or (None, None)
            for key, info in zip(keys[2:], containers, strict=False):
                if info:
                    self._of_request.setdefault(key, info)
            self._prefetched[storlet] = generation, entry

    def get(self, storlet: str) -> tuple[str | None, str | None]:
        """The account's generation, and the entry if it is of it; ``None``: do not cache."""
        if not self._memcache:
            return None, None
        if storlet not in self._prefetched:
            self.prefetch(storlet)
        generation, entry = self._prefetched.pop(storlet)
        if generation is None:
            generation = secrets.token_hex(8)
            self._store(self._generation_key, generation, _GENERATION_SECONDS)
        if generation == "writing":
            return None, None
        if isinstance(entry, dict) and entry.get("generation") == generation:
            return generation, entry["version"]
        return generation, None

    def put(self, storlet: str, generation: str | None, version: str) -> None:
        """Cache ``version``; readers ignore it if a write changed the generation meanwhile."""
        if self._memcache and generation:
            self._store(
                self._entry_key(storlet),
                {"generation": generation, "version": version},
                _ENTRY_SECONDS,
            )

    def begin_write(self) -> None:
        """A write begins: cache nothing until :meth:`end_write`, or until the mark expires."""
        if self._memcache:
            self._store(self._generation_key, "writing", _WRITING_SECONDS)

    def end_write(self) -> None:
        """A write ended, successful or not: all entries before are of an older generation."""
        if self._memcache:
            self._store(self._generation_key, secrets.token_hex(8), _GENERATION_SECONDS)

    def _entry_key(self, storlet: str) -> str:
        # The name includes the form of the entry: proxies of two releases may share a memcached.
        return f"storlets-version-text-2/{self.account}/{storlet}"

    def _store(self, key: str, value: Any, seconds: int) -> None:
        self._memcache.set_multi({key: value}, self._container_key, time=seconds)


def _code_file(container: str, name: str, answer: Any, mode: int) -> CodeFile:
    segmented = "X-Static-Large-Object" in answer.headers
    size = answer.content_length
    if size is None:
        raise InternalError(f"Swift gave no length for {container}/{name}")
    etag = (answer.headers.get("Etag") or "").strip('"')
    # The first is the time of the bytes; a POST of metadata changes the other two.
    times = ("X-Backend-Data-Timestamp", "X-Timestamp", "Last-Modified")
    timestamp = next((answer.headers[header] for header in times if answer.headers.get(header)), "")
    return CodeFile(container, name, etag, timestamp, size, mode, segmented)


def _require_success(answer: Any, what: str) -> None:
    if not 200 <= answer.status_int < 300:
        raise BackendFailed(f"{what} cannot be read now: Swift answered {answer.status_int}")


def _require_own_bytes(answer: Any, path: str, what: str) -> None:
    """Refuse bytes of another object: we read with rights that the tenant may not have there.

    A static large object is no link in this sense: Swift checked access to its segments when it was
    made.  In a versioned container Swift names the version of the object itself.
    """
    location = str(answer.headers.get("Content-Location") or path).partition("?")[0]
    if (
        unquote(location) != unquote(path.partition("?")[0])
        or "X-Object-Manifest" in answer.headers
    ):
        raise Unprocessable(
            f"{what} is a link to other objects, which code cannot be", code=errors.STORLET_LOAD
        )


class ProxyFetcher:
    """Fetches code through the proxy's own pipeline."""

    def __init__(self, app: Any, environ: dict[str, Any], version: str) -> None:
        self._app = app
        self._environ = environ
        self._version = version

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        """See :class:`~storlet_middleware.engine.code_cache.Fetcher`."""
        path = object_path(self._version, account, file.container, file.name)
        headers = {**own_requests.NEWEST, "If-Match": file.etag}
        answer = own_requests.send(self._app, self._environ, "GET", path, headers)
        try:
            if answer.status_int != 200:
                raise code_unavailable(file, answer.status_int)
            yield from ObjectBody(answer)
        finally:
            close_if_possible(answer.app_iter)


def code_unavailable(file: CodeFile, status: int) -> StorletError:
    """The error for code that cannot be read: it was replaced meanwhile, or Swift has a problem."""
    kind = CodeReplaced if status in (404, 412) else BackendFailed
    return kind(
        f"code {file.container}/{file.name} cannot be read now: Swift answered {status}",
        retry_after=1,
    )
