"""Which uid and gid a tenant's sandboxes run as: persistent, and never given to another tenant.

The uid must differ from Swift's: a process that owns an object's file can reopen a donated read-only descriptor for
writing through ``/proc/self/fd``.  It must differ between tenants, too, so that nothing of one is another's: hence one
uid for each (account, trust class), keyed by the whole account name and never by a shortened one.  The gid has the same
number.

``<state_dir>/identities.json`` holds every uid ever given::

    {"version": 1, "identities": [{"account": "AUTH_test", "class": "user", "uid": 200000}, ...]}

Entries are never deleted, so a uid is never reused even when an account is.  The file is replaced by rename after an
``fsync``, under an exclusive ``flock`` of ``identities.lock``, so several processes of one machine may allot at the same
time.  A file that cannot be read stops the allotment: starting over would hand out uids a second time.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import json
import os
import pwd
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


class Identities:
    """Gives out uids of ``uids``, remembered in ``state_dir``; every method may block on the disk or the lock."""

    def __init__(self, state_dir: Path, uids: UidRange) -> None:
        self._path = state_dir / FILE_NAME
        self._lock_path = state_dir / LOCK_NAME
        self._uids = uids

    def identity(self, account: str, trust_class: str) -> Identity:
        """The identity of (account, trust class), allotted now if it never was; raises :class:`IdentityFault`."""
        try:
            with self._locked():
                known = self._read()
                for identity in known:
                    if (identity.account, identity.trust_class) == (account, trust_class):
                        return identity
                identity = Identity(account, trust_class, self._next_uid({i.uid for i in known}))
                self._write([*known, identity])
                return identity
        except OSError as error:
            raise IdentityFault(f"cannot read or write {self._path}: {error}") from error

    def check(self) -> None:
        """Raise :class:`IdentityFault` when the range can never work or the file cannot be read."""
        if self._uids.first < 1 or self._uids.first + self._uids.count > 2**32 - 1:
            raise IdentityFault(
                f"[sandbox] uid_first = {self._uids.first}, uid_count = {self._uids.count}: not a range of uids; "
                "0 is root and 4294967295 means no user"
            )
        try:
            with self._locked():
                self._read()
        except OSError as error:
            raise IdentityFault(f"cannot read {self._path}: {error}") from error

    def _next_uid(self, used: set[int]) -> int:
        # Above the highest one ever given, not the lowest free one: the same rule would hold if entries were lost
        # from the middle of the file.
        ours = [uid for uid in used if uid in self._uids]
        uid = max(ours, default=self._uids.first - 1) + 1
        while uid in self._uids:
            if not _is_on_host(uid):
                return uid
            uid += 1
        raise IdentityFault(
            f"no uid left: {len(ours)} of the {self._uids.count} from {self._uids.first} are given to tenants; "
            "raise [sandbox] uid_count"
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

    def _read(self) -> list[Identity]:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        try:
            identities = _parsed(text)
        except (ValueError, KeyError, TypeError) as error:
            raise IdentityFault(
                f"{self._path} is damaged ({error}); restore it from a backup: without it a uid of one tenant could be "
                "given to another"
            ) from error
        if len({i.uid for i in identities}) != len(identities):
            raise IdentityFault(f"{self._path} is damaged: a uid is in it twice")
        return identities

    def _write(self, identities: list[Identity]) -> None:
        entries = [{"account": i.account, "class": i.trust_class, "uid": i.uid} for i in identities]
        text = json.dumps({"version": FORMAT_VERSION, "identities": entries}, indent=1)
        temporary = self._path.with_name(FILE_NAME + ".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)  # else a power cut could bring back the older file, and a uid would be given twice
        finally:
            os.close(directory)


def _parsed(text: str) -> list[Identity]:
    data = json.loads(text)
    if data["version"] != FORMAT_VERSION:
        raise ValueError(f"version {data['version']!r} is not {FORMAT_VERSION}")
    return [Identity(str(e["account"]), str(e["class"]), int(e["uid"])) for e in data["identities"]]


def _is_on_host(uid: int) -> bool:
    """Whether a user or a group of the host has this number."""
    for lookup in (pwd.getpwuid, grp.getgrgid):
        try:
            lookup(uid)
        except KeyError:
            continue
        return True
    return False
