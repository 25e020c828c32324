"""Patterns of ``.gitignore`` mean what they mean to Git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from storlet_client.builder import ignored

PATHS = (
    "a.log", "b/a.log", "b/c/a.log", "build.sh", "b/build.sh", "x/data.bin", "data.bin", "out/a",
    "b/out/a", "[x]", "x!y", "a b", "notes ", "#a", "!a", "b/c/d/e.txt", "doc/a.txt", "doc/b/a.txt",
    "-", "z.tar.gz", "b/keep.log", "aXb", "a/b", "a/x/b", "x.log", "key1.pem", "k]", "k^",
)  # fmt: skip
#: The rules of a project, and of its folder ``b``.
RULES = (
    ("*.log\n", ""),
    ("*.log\n!keep.log\n", ""),
    ("*.log\n", "!a.log\n"),
    ("/a.log\n", "/a.log\n"),
    ("out/\n", ""),
    ("out\n", ""),
    ("/out\n", ""),
    ("b/out\n", ""),
    ("b/\n!b/a.log\n", ""),
    ("**/a.log\n", ""),
    ("/**/a.log\n", ""),
    ("b/**\n", ""),
    ("b/**/e.txt\n", ""),
    ("doc/*.txt\n", ""),
    ("doc/**/a.txt\n", ""),
    ("a**b\n", ""),
    ("a?b\n", ""),
    ("[[]x]\n", ""),
    ("\\[x\\]\n", ""),
    ("[!a].log\n", ""),
    ("[a-c].log\n", ""),
    ("[z-a].log\n", ""),
    ("[a.log\n", ""),
    ("notes\\ \n", ""),
    ("a b  \n", ""),
    ("\\#a\n\\!a\n", ""),
    ("# a\n\n!\n/\n", ""),
    ("*\n!*/\n!*.sh\n", ""),
    ("*\n", ""),
    ("b/c\n", "!c\n"),
    ("", "c/\n*.sh\n"),
    ("x[!/]y\n", ""),
    ("*.tar.*\n", ""),
    ("-\n", ""),
    ("*.log\r\n", ""),
    ("\ufeff*.log\n", ""),
    ("key[[:digit:]].pem\n", ""),
    ("[[:alpha:]_].log\n", ""),
    ("[![:upper:]].log\n", ""),
    ("[[:none:]].log\n", ""),
    ("k[\\]]\n", ""),
    ("k[]]\n", ""),
    ("k[\\^]\n", ""),
    ("k[^\\]]\n", ""),
)


def kept(top: Path, inner: str = "", rules: tuple[ignored.Rule, ...] = ()) -> set[str]:
    """The files that are not ignored."""
    found = set()
    rules = (*rules, *ignored.rules_of(top / inner, inner))
    for path in (top / inner).iterdir():
        name = inner + path.name
        if path.name not in {ignored.FILE, ".git"}:
            if ignored.is_ignored(name, rules, is_folder=path.is_dir()):
                continue
            found |= kept(top, f"{name}/", rules) if path.is_dir() else {name}
    return found


@pytest.mark.parametrize(("own", "inner"), RULES)
def test_git_keeps_the_same_files(tmp_path: Path, own: str, inner: str) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    for folder, text in (("", own), ("b", inner)):
        (tmp_path / folder / ignored.FILE).write_bytes(text.encode())
    git = ["git", "-c", "core.excludesFile=/dev/null", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-per-directory=.gitignore"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    expected = {path for path in listed.split("\0") if path and not path.endswith(ignored.FILE)}
    assert kept(tmp_path) == expected


def test_a_project_without_rules_keeps_all(tmp_path: Path) -> None:
    assert ignored.rules_of(tmp_path, "") == []


def test_folders_above_a_project_have_rules(tmp_path: Path) -> None:
    """Up to that of the repository; what Git ignores as a whole has no rules from above."""
    top = tmp_path / "repository/storlets/fruit"
    (top / "secrets").mkdir(parents=True)
    write = {
        ".gitignore": "a.pem\n",
        "repository/.gitignore": "b.pem\n/storlets/fruit/c.pem\n/d.pem\n",
        "repository/storlets/.gitignore": "secrets/\n!kept.pem\n",
        "repository/.git/info/exclude": "e.pem\nkept.pem\n",
    }
    (tmp_path / "repository/.git/info").mkdir(parents=True)
    for path, text in write.items():
        (tmp_path / path).write_text(text)

    def found() -> list[str]:
        where, rules = ignored.rules_above(top)
        paths = ("a.pem", "b.pem", "c.pem", "d.pem", "e.pem", "kept.pem")
        return [each for each in paths if ignored.is_ignored(where + each, rules, is_folder=False)]

    assert found() == ["b.pem", "c.pem", "e.pem"]
    where, rules = ignored.rules_above(top)
    assert ignored.is_ignored(f"{where}secrets", rules, is_folder=True)
    (tmp_path / "repository/.gitignore").write_text("*\n")
    assert ignored.rules_above(top) == ("", ())
    (tmp_path / "repository/.git/info/exclude").unlink()
    (tmp_path / "repository/.git/info").rmdir()
    (tmp_path / "repository/.git").rmdir()
    assert ignored.rules_above(top) == ("", ())
