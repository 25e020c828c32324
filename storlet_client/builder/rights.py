"""The rights of builds and outputs: those of the user who started ``sudo``, and not those of root.

``storlet run`` needs root for its sandbox.  The build before it does not.  As root, the scripts of
a project would run without any limit.  Its lock file and the files of its build would belong to
root, so that the next build without ``sudo`` could not replace them.  The same holds for a new
project, and for outputs in a folder of the user (:mod:`files`).
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from storlet_client.builder.project import ProjectError

_FAULTS, _ERROR, _RESULT = "faults", "error", "result"
#: The greatest id of a user or a group; system calls read the number above it as "unchanged".
_MOST_ID = (1 << 32) - 2


@dataclass(frozen=True)
class User:
    """The user who started ``sudo``."""

    uid: int
    gid: int

    def take(self) -> None:
        """Make this process, which is root's, one of the user's for good."""
        try:
            known = pwd.getpwuid(self.uid)
        except KeyError:
            os.setgroups([self.gid])
            os.environ.pop("HOME", None)
        else:
            os.initgroups(known.pw_name, self.gid)
            # pip, Maven and cargo keep their files there.
            os.environ.update(HOME=known.pw_dir, USER=known.pw_name, LOGNAME=known.pw_name)
        os.setgid(self.gid)
        os.setuid(self.uid)


def user_of(folder: Path) -> User | None:
    """The user whose rights the build of a project has; ``None`` if this process keeps its own.

    It keeps them if it is not root's, if ``sudo`` did not start it, and if the folder is root's:
    then its scripts are root's, too, and the user could not write there.
    """
    user = _caller()
    return user if user is not None and folder.stat().st_uid else None


def owner(folder: os.stat_result) -> User | None:
    """The user who started ``sudo``, if the folder belongs to that user; else ``None``."""
    user = _caller()
    return user if user is not None and folder.st_uid == user.uid else None


def owner_above(path: Path) -> User | None:
    """:func:`owner` of the first existing folder above ``path``."""
    above = next((each for each in path.parents if each.exists()), None)
    return None if above is None else owner(above.stat())


def _caller() -> User | None:
    """The user who started ``sudo``, if it started this process as root."""
    ids = [os.environ.get(name, "") for name in ("SUDO_UID", "SUDO_GID")]
    if os.geteuid() or not all(each.isdecimal() and int(each) <= _MOST_ID for each in ids):
        return None
    uid, gid = map(int, ids)
    return User(uid, gid) if uid else None


def give(folder: Path, user: User | None) -> None:
    """Let the user write into ``folder``, which is empty."""
    if user is not None:
        os.chown(folder, user.uid, user.gid)


def with_rights_of(user: User | None, work: Callable[[], str]) -> str:
    """The result of ``work``, which runs with the rights of ``user``, in a process of its own.

    :raises ProjectError: as ``work`` does, or its process was killed.
    :raises OSError: as ``work`` does.
    """
    if user is None:
        return work()
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        _run(user, work, writer)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as answers:
            packed = answers.read()
    except BaseException:
        os.kill(pid, signal.SIGTERM)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
    return _result(json.loads(packed) if packed else {}, status)


def _run(user: User, work: Callable[[], str], writer: int) -> NoReturn:
    """The child: run ``work``, and write what became of it."""
    status = 1
    try:
        user.take()
        try:
            answer: dict[str, Any] = {_RESULT: work()}
        except ProjectError as error:
            answer = {_FAULTS: error.faults}
        except ImportError as error:
            # Python itself may be in a folder of root; its modules are imported when needed.
            text = f"{error.msg}: user {user.uid} may not read the Python of this command"
            help_ = "install storlet-client where that user may read it, or build without sudo"
            answer = {_FAULTS: [f"{text} ({sys.base_prefix}): {help_}"]}
        except OSError as error:
            answer = {_ERROR: [error.errno, error.strerror, error.filename]}
        os.write(writer, json.dumps(answer, default=os.fspath).encode())
        status = 0
    finally:
        # Without the handlers and the buffers of the process that it is a copy of.
        os._exit(status)


def _result(answer: dict[str, Any], status: int) -> str:
    """The result that ``work`` returned; raises what it raised."""
    if _FAULTS in answer:
        raise ProjectError(answer[_FAULTS])
    if _ERROR in answer:
        raise OSError(*answer[_ERROR])
    if _RESULT not in answer:
        raise ProjectError([f"the build ended without a result (status {status})"])
    return str(answer[_RESULT])
