"""Which uid and gid a tenant's sandboxes run as: persistent, and never given to another tenant.

The uid must differ from Swift's: a process that owns an object's file can reopen a donated read-only descriptor for
writing through ``/proc/self/fd``.  It must differ between tenants, too, so that nothing of one is another's: hence one
uid for each (account, trust class), keyed by the whole account name and never by a shortened one.  The gid has the same
number.

``<state_dir>/identities.json`` holds every uid ever given::

    {"version": 1, "node": "6f0c...", "identities": [{"account": "AUTH_test", "class": "user", "uid": 200000}, ...]}

Entries are never deleted, so a uid is never reused even when an account is.  The file is replaced by rename after an
``fsync``, under an exclusive ``flock`` of ``identities.lock``, so several processes of one node may allot at the same
time.  A file that cannot be read stops the allotment: starting over would hand out uids a second time.

uids are the machine's, and a machine may have several nodes, each with a ``state_dir`` of its own.  So before a uid is
given it is *claimed*: ``<identity_dir>/<uid>`` is created, which succeeds for one process of the machine and for ever.
Ranges may overlap then; the claim says whose it is, by the random ``node`` of ``identities.json``, which moves with it.
See ``docs/decisions/0014-uid-claims.rst``.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import json
import os
import pwd
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from storlet_middleware.sandboxd.errors import IdentityFault

FILE_NAME: Final = "identities.json"
LOCK_NAME: Final = "identities.lock"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True)
class Identity:
    """A tenant's user on this node; ``gid`` has the number of ``uid``."""

    account: str
    trust_class: str
    uid: int

    @property
    def gid(self) -> int:
        return self.uid


@dataclass(frozen=True)
class UidRange:
    """uids ``first`` to ``first + count - 1``."""

    first: int
    count: int

    def __contains__(self, uid: int) -> bool:
        return self.first <= uid < self.first + self.count


@dataclass(frozen=True)
class Book:
    """What ``identities.json`` holds; ``node`` tells the nodes of a machine apart."""

    node: str
    identities: tuple[Identity, ...]


class Identities:
    """Gives out uids of ``uids``, remembered in ``state_dir`` and claimed in ``identity_dir``.

    Every method may block on the disk or the lock.
    """

    def __init__(self, state_dir: Path, identity_dir: Path, uids: UidRange) -> None:
        self._path = state_dir / FILE_NAME
        self._lock_path = state_dir / LOCK_NAME
        self._claims = Claims(identity_dir)
        self._uids = uids

    def identity(self, account: str, trust_class: str) -> Identity:
        """The identity of (account, trust class), allotted now if it never was; raises :class:`IdentityFault`."""
        try:
            with self._locked():
                self._claims.make()
                book = self._read()
                for identity in book.identities:
                    if (identity.account, identity.trust_class) == (account, trust_class):
                        return identity
                identity = self._claimed(account, trust_class, book)
                self._write(Book(book.node, (*book.identities, identity)))
                return identity
        except OSError as error:
            raise IdentityFault(f"cannot read or write {self._path}: {error}") from error

    def check(self) -> None:
        """Raise :class:`IdentityFault` when the range can never work or a uid that was given is another node's, too."""
        if self._uids.first < 1 or self._uids.first + self._uids.count > 2**32 - 1:
            raise IdentityFault(
                f"[sandbox] uid_first = {self._uids.first}, uid_count = {self._uids.count}: not a range of uids; "
                "0 is root and 4294967295 means no user"
            )
        try:
            with self._locked():
                self._claims.make()
                book = self._read()
                for identity in book.identities:
                    holder = self._claims.claim(identity, book.node, self._path.parent)
                    if holder is not None and holder.node != book.node:
                        raise IdentityFault(
                            f"uid {identity.uid} is that of {identity.account} here ({self._path}) and was given to a "
                            f"tenant of the node in {holder.state_dir}, too: give this node another uid_first and remove "
                            f"the entry"
                        )
                self._write(book)
        except OSError as error:
            raise IdentityFault(f"cannot read or write {self._path} or {self._claims.path}: {error}") from error

    def _claimed(self, account: str, trust_class: str, book: Book) -> Identity:
        # Above the highest one ever given, not the lowest free one: the same rule would hold if entries were lost
        # from the middle of the file.
        ours = [identity.uid for identity in book.identities if identity.uid in self._uids]
        for uid in range(max(ours, default=self._uids.first - 1) + 1, self._uids.first + self._uids.count):
            identity = Identity(account, trust_class, uid)
            if not _is_on_host(uid) and self._claims.claim(identity, book.node, self._path.parent) is None:
                return identity
        raise IdentityFault(
            f"no uid left: {len(ours)} of the {self._uids.count} from {self._uids.first} are given to tenants of this node, "
            "the others to other nodes of this machine or to its users; raise [sandbox] uid_count"
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._lock_path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _read(self) -> Book:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Book(secrets.token_hex(16), ())
        try:
            book = _parsed(text)
        except (ValueError, KeyError, TypeError) as error:
            raise IdentityFault(
                f"{self._path} is damaged ({error}); restore it from a backup: without it a uid of one tenant could be "
                "given to another"
            ) from error
        if len({i.uid for i in book.identities}) != len(book.identities):
            raise IdentityFault(f"{self._path} is damaged: a uid is in it twice")
        return book

    def _write(self, book: Book) -> None:
        entries = [{"account": i.account, "class": i.trust_class, "uid": i.uid} for i in book.identities]
        text = json.dumps({"version": FORMAT_VERSION, "node": book.node, "identities": entries}, indent=1)
        temporary = self._path.with_name(FILE_NAME + ".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        _sync_directory(
            self._path.parent
        )  # else a power cut could bring back the older file: a uid would be given twice


@dataclass(frozen=True)
class Holder:
    """Whose a claimed uid is; both are empty when the claim cannot be read, and then it is nobody's for ever."""

    node: str
    state_dir: str


class Claims:
    """The uids of one machine that were ever given: a file for each in ``path``, created once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Make the directory, for root only."""
        self.path.mkdir(0o700, parents=True, exist_ok=True)

    def claim(self, identity: Identity, node: str, state_dir: Path) -> Holder | None:
        """Claim a uid for good; or whose it is already."""
        if (self.path / str(identity.uid)).exists():  # claims are never removed; to see it now saves an fsync for each
            return _holder(self.path / str(identity.uid))
        path, temporary = self.path / str(identity.uid), self.path / f".{secrets.token_hex(8)}"
        told = {"node": node, "state_dir": str(state_dir), "account": identity.account, "class": identity.trust_class}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
                json.dump(told, file)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)  # one of all who try it succeeds, and never half
        except FileExistsError:
            return _holder(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_directory(self.path)
        return None


def _holder(path: Path) -> Holder:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Holder(str(data["node"]), str(data["state_dir"]))
    except (ValueError, KeyError, TypeError):
        return Holder("", "")


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _parsed(text: str) -> Book:
    data = json.loads(text)
    if data["version"] != FORMAT_VERSION:
        raise ValueError(f"version {data['version']!r} is not {FORMAT_VERSION}")
    identities = tuple(Identity(str(e["account"]), str(e["class"]), int(e["uid"])) for e in data["identities"])
    return Book(str(data.get("node") or secrets.token_hex(16)), identities)


def _is_on_host(uid: int) -> bool:
    """Whether a user or a group of the host has this number."""
    for lookup in (pwd.getpwuid, grp.getgrgid):
        try:
            lookup(uid)
        except KeyError:
            continue
        return True
    return False
