"""The uid and gid of a tenant's sandboxes: persistent, and never reused for another tenant.

The uid must differ from Swift's: the owner of an object's file can reopen a donated read-only
descriptor for writing through ``/proc/self/fd``.  It must differ between tenants, too, so that no
file of one belongs to another: hence one uid per (account, trust class), keyed by the whole account
name, never by a truncated one.  The gid has the same number.

``<state_dir>/identities.json`` lists every uid ever allocated::

    {"version": 1, "node": "6f0c...",
     "identities": [{"account": "AUTH_test", "class": "user", "uid": 200000}, ...]}

Entries are never deleted, so a uid is never reused, even if an account name is.  The file is
replaced by rename after an ``fsync``, under an exclusive ``flock`` of ``identities.lock``, so
several processes of a node can allocate concurrently.  An unreadable file stops allocation:
starting over would allocate uids twice.

All nodes of a machine share its uids, and each node has its own ``state_dir``.  So a uid is
*claimed* before it is allocated: ``<identity_dir>/<uid>`` is created, which succeeds once on the
machine.  The ranges of nodes may therefore overlap.  The claim contains the random ``node`` of the
owner's ``identities.json``.  See ``docs/decisions/0014-uid-claims.rst``.
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
class Register:
    """The content of ``identities.json``; ``node`` identifies the node on its machine."""

    node: str
    identities: tuple[Identity, ...]


class Identities:
    """Allocates from the range ``uids``; recorded in ``state_dir``, claimed in ``identity_dir``.

    Every method may block on the disk or the lock.
    """

    def __init__(self, state_dir: Path, identity_dir: Path, uids: UidRange) -> None:
        self._path = state_dir / FILE_NAME
        self._lock_path = state_dir / LOCK_NAME
        self._claims = Claims(identity_dir)
        self._uids = uids

    def identity(self, account: str, trust_class: str) -> Identity:
        """The identity of (account, trust class), allocated at the first call.

        Raises :class:`IdentityFault`.
        """
        try:
            with self._locked():
                self._claims.make()
                register = self._read()
                for identity in register.identities:
                    if (identity.account, identity.trust_class) == (account, trust_class):
                        return identity
                identity = self._claimed(account, trust_class, register)
                self._write(Register(register.node, (*register.identities, identity)))
                return identity
        except OSError as error:
            raise IdentityFault(f"cannot read or write {self._path}: {error}") from error

    def check(self) -> None:
        """Raise :class:`IdentityFault` for an unusable range or a uid allocated by two nodes."""
        if self._uids.first < 1 or self._uids.first + self._uids.count > 2**32 - 1:
            raise IdentityFault(
                f"[sandbox] uid_first = {self._uids.first}, uid_count = {self._uids.count}: not a "
                "range of uids; 0 is root and 4294967295 means no user"
            )
        try:
            with self._locked():
                self._claims.make()
                register = self._read()
                for identity in register.identities:
                    holder = self._claims.claim(identity, register.node, self._path.parent)
                    if holder is not None and holder.node != register.node:
                        raise IdentityFault(
                            f"uid {identity.uid} belongs to {identity.account} here "
                            f"({self._path}) and also to a tenant of the node in "
                            f"{holder.state_dir}: set another uid_first for this node and remove "
                            "the entry"
                        )
                self._write(register)
        except OSError as error:
            raise IdentityFault(
                f"cannot read or write {self._path} or {self._claims.path}: {error}"
            ) from error

    def _claimed(self, account: str, trust_class: str, register: Register) -> Identity:
        # Above the highest uid ever allocated, not the lowest free one: this stays safe even if
        # entries were lost from the middle of the file.
        ours = [identity.uid for identity in register.identities if identity.uid in self._uids]
        for uid in range(
            max(ours, default=self._uids.first - 1) + 1, self._uids.first + self._uids.count
        ):
            identity = Identity(account, trust_class, uid)
            if (
                not _is_on_host(uid)
                and self._claims.claim(identity, register.node, self._path.parent) is None
            ):
                return identity
        raise IdentityFault(
            f"no uid left: of the {self._uids.count} from {self._uids.first}, {len(ours)} belong "
            "to tenants of this node, the others to other nodes or users of this machine; raise "
            "[sandbox] uid_count"
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

    def _read(self) -> Register:
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Register(secrets.token_hex(16), ())
        try:
            register = _parsed(text)
        except (ValueError, KeyError, TypeError) as error:
            raise IdentityFault(
                f"{self._path} is damaged ({error}); restore it from a backup: without it a uid of "
                "one tenant could be allocated to another"
            ) from error
        if len({i.uid for i in register.identities}) != len(register.identities):
            raise IdentityFault(f"{self._path} is damaged: a uid is in it twice")
        return register

    def _write(self, register: Register) -> None:
        entries = [
            {"account": i.account, "class": i.trust_class, "uid": i.uid}
            for i in register.identities
        ]
        text = json.dumps(
            {"version": FORMAT_VERSION, "node": register.node, "identities": entries}, indent=1
        )
        temporary = self._path.with_name(FILE_NAME + ".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)
        _sync_directory(
            self._path.parent
        )  # else a power failure could restore the older file, and a uid be allocated twice


@dataclass(frozen=True)
class Holder:
    """The node that claimed a uid; empty when the claim is unreadable."""

    node: str
    state_dir: str


class Claims:
    """The uids of one machine that were ever allocated: one file each in ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Make the directory, accessible to root only."""
        self.path.mkdir(0o700, parents=True, exist_ok=True)

    def claim(self, identity: Identity, node: str, state_dir: Path) -> Holder | None:
        """Claim a uid for good; return ``None``, or the node that holds it already."""
        if (
            self.path / str(identity.uid)
        ).exists():  # saves the fsync below; claims are never removed
            return _holder(self.path / str(identity.uid))
        path, temporary = self.path / str(identity.uid), self.path / f".{secrets.token_hex(8)}"
        claim = {
            "node": node,
            "state_dir": str(state_dir),
            "account": identity.account,
            "class": identity.trust_class,
        }
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
                json.dump(claim, file)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)  # atomic: exactly one process succeeds
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


def _parsed(text: str) -> Register:
    data = json.loads(text)
    if data["version"] != FORMAT_VERSION:
        raise ValueError(f"version {data['version']!r} is not {FORMAT_VERSION}")
    identities = tuple(
        Identity(str(e["account"]), str(e["class"]), int(e["uid"])) for e in data["identities"]
    )
    return Register(str(data.get("node") or secrets.token_hex(16)), identities)


def _is_on_host(uid: int) -> bool:
    """Whether a user or a group of the host has this number."""
    for lookup in (pwd.getpwuid, grp.getgrgid):
        try:
            lookup(uid)
        except KeyError:
            continue
        return True
    return False
