"""``make release VERSION=0.2.0``: one commit with a tag, for both packages of the checkout.

It sets the version (:data:`FILES`), moves the news fragments into ``CHANGELOG.rst``, commits and
tags.  Nothing is pushed, and a failure leaves no commit and no tag.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from . import cache, venv
from .home import CHECKOUT
from .progress import AioError, say

#: The lines that declare a version: of the server's package, and of the client's.
FILES: Final = {
    "setup.py": re.compile(r'^    version="([^"]+)",$', re.MULTILINE),
    "storlet_client/__init__.py": re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE),
}
_VERSION: Final = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")


def release(version: str, checkout: Path = CHECKOUT) -> None:
    """Make the commit and the tag of ``version``.

    :raises AioError: the version is no next one, the checkout has changes, or a step failed.
    """
    _require_next(version, checkout)
    tag = f"v{version}"
    if _output(checkout, "git", "status", "--porcelain"):
        raise AioError("the checkout has changes: commit them first")
    if _output(checkout, "git", "tag", "--list", tag):
        raise AioError(f"there is a tag {tag} already")
    towncrier = str(venv.tools(cache.cache_root() / "release.log") / "bin/towncrier")
    try:
        for name in FILES:
            _write(checkout / name, FILES[name], version)
        _output(checkout, towncrier, "build", "--yes", "--version", version)
        _output(checkout, "git", "commit", "--all", "--quiet", "--message", f"Release {version}")
    except AioError:
        _output(checkout, "git", "reset", "--quiet", "--hard")
        raise
    _output(checkout, "git", "tag", "--annotate", tag, "--message", f"swift-storlets {version}")
    say(f"released {version}: look at `git show {tag}`, then `git push origin HEAD {tag}`")


def versions(checkout: Path = CHECKOUT) -> dict[str, str]:
    """The declared version, by file."""
    return {name: _declared(checkout / name, line) for name, line in FILES.items()}


def _require_next(version: str, checkout: Path) -> None:
    if not _VERSION.fullmatch(version):
        raise AioError(f"VERSION={version}: want three numbers, such as 0.2.0")
    for name, present in versions(checkout).items():
        if _numbers(version) <= _numbers(present):
            raise AioError(f"VERSION={version}: {name} has {present}; want a higher one")


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def _declared(path: Path, line: re.Pattern[str]) -> str:
    found: list[str] = line.findall(path.read_text(encoding="utf-8"))
    if len(found) != 1:
        raise AioError(f"{path.name}: {len(found)} lines declare a version; want one")
    return found[0]


def _write(path: Path, line: re.Pattern[str], version: str) -> None:
    text = path.read_text(encoding="utf-8")
    written = line.sub(lambda found: found[0].replace(found[1], version), text)
    path.write_text(written, encoding="utf-8")


def _output(checkout: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise AioError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()
