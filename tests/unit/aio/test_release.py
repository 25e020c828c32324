"""A release: version, release notes, commit and tag in one step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from storlet_middleware.aio import release, venv
from storlet_middleware.aio.progress import AioError

TOWNCRIER = """\
[tool.towncrier]
directory = "docs/changes"
filename = "CHANGELOG.rst"
"""


def git(checkout: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small checkout with a news fragment, and ``towncrier`` of this environment."""
    monkeypatch.setattr(venv, "tools", lambda _log: Path(sys.prefix))
    for name, value in {"NAME": "t", "EMAIL": "t@example.org"}.items():
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    for name, text in {
        "setup.py": 'setup(\n    version="0.1.0",\n)\n',
        "storlet_client/__init__.py": '__version__ = "0.1.0"\n',
        "towncrier.toml": TOWNCRIER,
        "CHANGELOG.rst": ".. towncrier release notes start\n",
        "docs/changes/+fast.feature.rst": "Faster.\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def test_a_release_is_a_tagged_commit_with_version_and_release_notes(checkout: Path) -> None:
    release.release("0.2.0", checkout)
    assert set(release.versions(checkout).values()) == {"0.2.0"}
    notes = (checkout / "CHANGELOG.rst").read_text()
    assert "0.2.0" in notes
    assert "Faster." in notes
    assert not list((checkout / "docs/changes").glob("+*"))
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "rev-parse", "v0.2.0^{commit}") == git(checkout, "rev-parse", "HEAD")


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "0.2", "v0.2.0", "0.2.0rc1", "00.2.0"])
def test_a_version_that_is_no_next_one_is_refused(checkout: Path, version: str) -> None:
    with pytest.raises(AioError, match="want"):
        release.release(version, checkout)
    assert git(checkout, "status", "--porcelain") == ""


def test_a_checkout_with_changes_is_refused(checkout: Path) -> None:
    (checkout / "setup.py").write_text('    version="0.1.1",\n')
    with pytest.raises(AioError, match="commit them first"):
        release.release("0.2.0", checkout)
    assert git(checkout, "tag") == ""


def test_an_existing_tag_is_refused(checkout: Path) -> None:
    git(checkout, "tag", "v0.2.0")
    with pytest.raises(AioError, match=r"v0\.2\.0 already"):
        release.release("0.2.0", checkout)


def test_a_failed_step_leaves_nothing(checkout: Path) -> None:
    (checkout / "towncrier.toml").write_text("[tool.towncrier\n")
    git(checkout, "commit", "--quiet", "--all", "--message", "no fragments")
    before = git(checkout, "rev-parse", "HEAD")
    with pytest.raises(AioError):
        release.release("0.2.0", checkout)
    assert git(checkout, "rev-parse", "HEAD") == before
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "tag") == ""


def test_both_packages_of_this_checkout_have_one_version() -> None:
    assert len(set(release.versions().values())) == 1
