"""Names that would leave a directory, become an option or break a log are refused."""

from __future__ import annotations

from typing import Any

import pytest

from storlet_middleware.errors import BadRequest
from storlet_middleware.sandboxd import checks
from tests.unit.sandboxd.doubles import make_storlet

LANGUAGES = ("python", "java")


def check(**changes: Any) -> None:
    checks.check_storlet("AUTH_a", make_storlet(**changes), LANGUAGES)


@pytest.mark.parametrize(
    "name", ["a.py", "ein Name.py", "ключ.py", "\U0001d482.py", "a..b", ".hidden", "a" * 255]
)
def test_ordinary_names_pass(name: str) -> None:
    check(name=name, file=name, dependencies=(name,))


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "/etc/passwd",
        "../x",
        "-rf",
        "a\0b",
        "a\r\nb",
        "\x1b[2J",
        "\x85",
        "a" * 256,
    ],
)
@pytest.mark.parametrize("where", ["name", "file", "dependencies"])
def test_bad_names_are_refused(where: str, name: str) -> None:
    with pytest.raises(BadRequest, match=f"storlet.{where}"):
        check(**{where: (name,) if where == "dependencies" else name})


def test_arguments_may_be_any_words_of_a_bounded_number_and_size() -> None:
    check(arguments=("-9", "", "s/a/b\n/", "../x"))
    for bad in (("a\0b",), ("a",) * 129, ("a" * 4097,)):
        with pytest.raises(BadRequest, match=r"storlet\.arguments"):
            check(arguments=bad)


@pytest.mark.parametrize("account", ["", "a\nb", "x" * 1025])
def test_bad_accounts_are_refused(account: str) -> None:
    with pytest.raises(BadRequest, match="account"):
        checks.check_account(account)


def test_a_language_that_the_node_does_not_run_is_refused() -> None:
    with pytest.raises(BadRequest, match="must be one of python, java"):
        check(language="cobol")


def test_the_number_and_the_size_of_dependencies_are_bounded() -> None:
    with pytest.raises(BadRequest, match="129 names, at most 128"):
        check(dependencies=tuple(f"d{n}" for n in range(129)))
    with pytest.raises(BadRequest, match="bytes"):
        check(dependencies=tuple(f"{n:03}" + "d" * 252 for n in range(128)))


def test_the_message_of_many_faults_is_one_bounded_line() -> None:
    with pytest.raises(BadRequest) as caught:
        check(dependencies=tuple("-" * 255 for _ in range(128)))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 500
