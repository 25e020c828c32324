"""The documents agree with the code, where a program can check this."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from storlet_daemon.protocol import messages
from storlet_middleware import config, errors, names
from tests.support import error_codes

ROOT = Path(__file__).resolve().parents[2]
#: Folders of build output and of clusters.
LEFT_OUT = frozenset({".aio", ".git", "target", "build"})
PAGES = sorted(
    path for path in ROOT.rglob("*.rst") if not LEFT_OUT & set(path.relative_to(ROOT).parts)
)

#: The kinds of pages (https://diataxis.fr), each with the beginning of its titles.
KINDS = {"tutorial": "Tutorial", "how-to": "How to", "reference": "", "explanation": ""}
#: The kinds of the pages that have a name of their own.
NAMED_FOR_THEIR_SUBJECT = {
    "developer/modules": "reference",
    "developer/request-paths": "explanation",
}


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_every_error_code_is_in_the_table_for_users() -> None:
    page = text_of("docs/user/reference.rst")
    missing = [code for code in errors.TABLE if f"``{code}``" not in page]
    assert missing == []


def test_the_title_of_a_decision_names_its_subject_and_is_no_sentence() -> None:
    verb = re.compile(r"\b(is|are|was|has|have|can|comes?|counts?|uses?|reads|shares?|runs? no)\b")
    titles = {
        path.read_text(encoding="utf-8").splitlines()[0]
        for path in (ROOT / "docs" / "decisions").glob("[0-9]*.rst")
    }
    # A verb of a relative clause belongs to the subject.
    own = {title for title in titles if not re.search(r"\b(that|whose|what)\b", title)}
    assert {title for title in own if verb.search(title)} == set()


def test_no_error_code_is_a_literal_beside_the_table() -> None:
    """So the tables, which the pages are made from or compared with, have every code."""
    assert error_codes.literals() == set()


@pytest.mark.parametrize(
    "text",
    [
        'raise StoreRefusal("new.code", 403, text)',
        'raise author.ServiceError(f"{x}", "new.code", 0)',
        'StorletError("text", code="new")',
        'GONE = "services.gone"',
        'if code == "storlet.limit.services": pass',
    ],
)
def test_a_code_that_is_a_literal_is_found_in_python(text: str) -> None:
    assert len([*error_codes.literals_of_python(text)]) == 1
    assert [*error_codes.literals_of_python('"""``services.gone``"""\nCODE = "memory.max"')] == []


@pytest.mark.parametrize(
    "text",
    [
        'explain_failure(failure, EIO, "new.code", 0,\n                "text");',
        'explain_failure(failure,\n    EIO, "new", 0, "text");',
        'if (strcmp(code, "services.gone") == 0) {',
    ],
)
def test_a_code_that_is_a_literal_is_found_in_c(text: str) -> None:
    assert len(error_codes.literals_of_c(text)) == 1
    harmless = '/* "access.rule" */ #include "worker.h"\n#define CODE_GONE "services.gone"\n'
    assert error_codes.literals_of_c(harmless.replace(" #", "\n#")) == set()


@pytest.mark.parametrize(
    "text",
    [
        'throw new DeniedException(a + " needs " + b,\n    "new.code",\n    403);',
        'private static final String GONE = "services.gone";',
        'if (code.equals("bad_request")) {',
    ],
)
def test_a_code_that_is_a_literal_is_found_in_java(text: str) -> None:
    assert len(error_codes.literals_of_java(text)) == 1
    constant = 'public static final String GONE = "services.gone"; // "access.rule"'
    assert error_codes.literals_of_java(constant, declares=True) == set()


def test_the_protocol_explains_every_code_that_only_a_running_storlet_sees() -> None:
    text = text_of("storlet_daemon/protocol/PROTOCOL.rst")
    assert [code for code in messages.SERVICE_CODES if f"``{code}``" not in text] == []


@pytest.mark.parametrize("codes", [messages.NODE_CODES, messages.SANDBOX_CODES])
def test_the_protocol_names_every_code_of_its_messages(codes: tuple[str, ...]) -> None:
    text = text_of("storlet_daemon/protocol/PROTOCOL.rst")
    assert [code for code in codes if f"``{code}``" not in text] == []


def test_every_decision_has_a_number_of_its_own_and_its_title_has_it() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.rst"))
    numbers = [path.name.split("-")[0] for path in pages]
    assert len(set(numbers)) == len(numbers)
    titles = [path.read_text(encoding="utf-8").split(".")[0] for path in pages]
    assert titles == numbers


@pytest.mark.parametrize(
    "header", [*names.CLIENT_HEADERS, names.GRANT_USER, names.GRANT_STORLET, names.REVOKE_USER]
)
def test_every_header_of_a_client_is_explained(header: str) -> None:
    assert header in text_of("docs/user/reference.rst")


@pytest.mark.parametrize(
    "header", [names.INVOCATION, names.RAN_ON, names.ERROR, names.INPUT_RANGE, names.GENERATED_FROM]
)
def test_every_header_of_an_answer_is_explained(header: str) -> None:
    assert header in text_of("docs/user/reference.rst")


def test_options_that_the_pages_name_exist() -> None:
    known = {f"[{option.section}] {option.name}" for option in config.OPTIONS}
    for page in PAGES:
        named = re.findall(r"``(\[[a-z]+\] [a-z_]+)``", page.read_text(encoding="utf-8"))
        assert set(named) <= known, page


def missing_files(page: Path) -> list[str]:
    """Files that a page names, and that do not exist."""
    text = page.read_text(encoding="utf-8")
    places = [page.parent, ROOT]
    roots = (
        "storlet_middleware",
        "storlet_daemon",
        "rules",
        "sandbox_images",
        "storlets",
        "etc",
        "docs",
        "tests",
    )
    linked = re.findall(r"<([a-zA-Z0-9_/.-]+\.(?:rst|py))>`_", text)
    named = [
        name
        for name in re.findall(r"``([a-z_]+/[a-zA-Z0-9_/.-]+)``", text)
        if name.startswith(roots)
    ]
    return [
        name for name in [*linked, *named] if not any((place / name).exists() for place in places)
    ]


def test_files_that_pages_name_exist() -> None:
    found = {str(page.relative_to(ROOT)): missing_files(page) for page in PAGES}
    assert {page: names for page, names in found.items() if names} == {}


def short_titles(page: Path) -> list[str]:
    """Titles that are longer than the line below them."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return [
        title
        for title, line in itertools.pairwise(lines)
        if re.fullmatch(r"(=+|-+|~+)", line)
        and title.strip()
        and not title.startswith(" ")
        and len(line) < len(title)
        and not re.search(r"[=-]{3}", title)
    ]


def test_titles_are_underlined_in_full() -> None:
    found = {str(page.relative_to(ROOT)): short_titles(page) for page in PAGES}
    assert {page: titles for page, titles in found.items() if titles} == {}


def kind_of(page: Path) -> str:
    """The kind of a page of ``docs``, by its name."""
    name = str(page.relative_to(ROOT / "docs").with_suffix(""))
    own = re.match(r"tutorial|how-to|reference|explanation", page.stem)
    return NAMED_FOR_THEIR_SUBJECT.get(name, own[0] if own else "")


def test_each_page_is_of_one_kind_which_its_name_states() -> None:
    folders = [ROOT / "docs" / name for name in ("user", "author", "operator", "developer")]
    pages = {page: kind_of(page) for folder in folders for page in folder.rglob("*.rst")}
    assert len(pages) > 20
    wrong = [
        str(page)
        for page, kind in pages.items()
        if kind not in KINDS or not page.read_text(encoding="utf-8").startswith(KINDS[kind])
    ]
    assert wrong == []


def test_titles_of_sections_do_not_name_a_kind() -> None:
    """A section of another kind than its page's belongs to a page of its own."""
    kinds = re.compile(r"^(How-to guides?|Tutorial|Reference|Explanation)\n[-~]+$", re.MULTILINE)
    wrong = [str(page) for page in PAGES if kinds.search(page.read_text(encoding="utf-8"))]
    assert wrong == []
