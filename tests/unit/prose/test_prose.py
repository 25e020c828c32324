"""The prose linter: its tables, its readers and its limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prose import check, passages, words
from tests.prose.__main__ import main

Captured = pytest.CaptureFixture[str]
LONG = " ".join(["word"] * 41) + "."


def findings(root: Path, name: str, text: str) -> list[str]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [f"{finding.line} {finding.text}" for finding in check.file(path, root)]


@pytest.mark.parametrize("row", words.ROWS, ids=lambda row: row.example)
def test_each_pattern_finds_its_example(row: words.Row) -> None:
    assert row.pattern.search(row.example)
    assert row.instead


@pytest.mark.parametrize(
    "sentence",
    [
        "Callers who may read the container get the result.",
        "The owner, who may write the account, sees the traceback.",
        "What if the node is full?",
        "The storlet reads what the client sends.",
        "The slot is released when the invocation ends.",
        "The change takes place at once, to two decimal points.",
        "One of the listings names ``nobody`` and ``whoever``.",
        "See https://example.org/who/asks/nobody for the source.",
    ],
)
def test_plain_english_passes(sentence: str, tmp_path: Path) -> None:
    assert findings(tmp_path, "page.rst", f"{sentence}\n") == []


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("A process who waits is ended.", "process who"),
        ("Whoever asks is served.", "Whoever"),
        ("A pipe that nobody reads.", "nobody"),
        ("What is on the list is allowed.", "What is on the list is allowed."),
        ("It is full. What waits is refused.", "What waits is refused."),
        ("The client is told so.", "told"),
        ("A node of 64 places.", "64 places"),
    ],
)
def test_the_dialect_is_found(sentence: str, found: str, tmp_path: Path) -> None:
    assert f'1 "{found}"' in findings(tmp_path, "page.rst", f"{sentence}\n")


def test_a_finding_names_file_line_text_and_replacement(tmp_path: Path) -> None:
    (tmp_path / "page.rst").write_text("Title\n=====\n\nOne line,\nand nobody waits.\n")
    (finding,) = check.file(tmp_path / "page.rst", tmp_path)
    assert str(finding) == 'page.rst:5: "nobody": name the subject: no process, no caller'


def test_a_construction_across_two_lines_is_found_on_the_first(tmp_path: Path) -> None:
    assert findings(tmp_path, "page.rst", "Fine.\nEach goes\non.\n") == ['2 "goes on"']


def test_sentences_of_more_than_forty_words_are_found(tmp_path: Path) -> None:
    assert findings(tmp_path, "page.rst", f"Short.\n\n{LONG}\n") == [
        '3 "word word word word ..." has 41 words',
        "3 205 columns",
    ]


def test_a_literal_is_one_word_and_list_items_are_sentences_of_their_own(tmp_path: Path) -> None:
    half = "\n  ".join(["word word word word word"] * 5)
    literal = "``" + "many words in one literal " * 3 + "``"
    assert findings(tmp_path, "page.rst", f"* {half}\n* {half}\n\n{literal}\n") == []


def test_lines_of_more_than_a_hundred_columns_are_found_except_in_code(tmp_path: Path) -> None:
    line = "reasonably-long " * 8
    text = f"Example::\n\n   {line}\n\n.. code-block:: bash\n\n   {line}\n\n{line}\n\n{'x' * 120}\n\n* - {'x' * 120}\n"
    assert findings(tmp_path, "page.rst", text) == ["9 128 columns"]


def test_news_fragments_leave_room_for_the_indentation_of_the_changelog(tmp_path: Path) -> None:
    (tmp_path / "docs/changes").mkdir(parents=True)
    text = "Rules: " + "x" * 86 + " that"
    assert findings(tmp_path, "docs/changes/+rules.new.rst", f"{text}\n") == []
    assert findings(tmp_path, "docs/changes/+rules.new.rst", f"{text}s\n") == ["1 99 columns"]


def test_code_blocks_directives_and_targets_are_not_read(tmp_path: Path) -> None:
    text = "Example::\n\n   nobody\n\n.. _nobody: https://x\n.. image:: nobody.png\n"
    assert findings(tmp_path, "page.rst", text) == []


def test_cells_of_a_table_are_read_one_by_one(tmp_path: Path) -> None:
    cell = "word " * 25
    table = f"=== ===\na   b\n=== ===\na   {cell.strip()[:90]}\n    and nobody\nb   {cell[:90]}\n=== ===\n"
    assert findings(tmp_path, "page.rst", table) == ['5 "nobody"']


def test_docstrings_and_comments_of_python_are_read_and_strings_are_not(tmp_path: Path) -> None:
    text = (
        '"""Nobody: a module."""\n'
        "x = 'nobody'  # nobody  # noqa: S105\n"
        "# First line of a comment: the request goes\n"
        "# on to the node.\n"
        "def f():\n"
        '    """Somebody.\n\n    Code::\n\n        nobody\n    """\n'
        "    # noqa: nobody\n"
    )
    assert findings(tmp_path, "module.py", text) == [
        '1 "Nobody"', '2 "nobody"', '3 "goes on"', '3 "request goes"', '6 "Somebody"',
    ]  # fmt: skip


def test_names_of_tests_are_sentences(tmp_path: Path) -> None:
    text = "def test_nobody_is_told() -> None:\n    pass\n\n\ndef test_what_waits(x: str) -> None: ...\n"
    assert findings(tmp_path, "tests/test_node.py", text) == [
        '1 "nobody"', '1 "told"', '5 "what waits"',
    ]  # fmt: skip
    assert findings(tmp_path, "node.py", text) == []


def test_texts_of_the_product_are_read_and_values_and_examples_are_not(tmp_path: Path) -> None:
    text = (
        'KINDS = ["nobody", "asked told"]\n'
        'raise Full(f"the limit of {most} is told")\n'
        'HELP = """Select with a rule::\n\n  storlet rules who may read\n"""\n'
        "LITERAL = 'use ``nobody`` as the name'\n"
        'def f():\n    """The help."""\n'
    )
    assert findings(tmp_path, "module.py", text) == ['2 "told"']
    assert findings(tmp_path, "tests/module.py", text) == []


def test_comments_of_java_are_read_and_strings_are_not(tmp_path: Path) -> None:
    text = (
        'class A {\n  String s = "// nobody"; // nobody\n'
        "  /**\n   * Somebody {@link A}.\n   * @param b whoever\n   */\n}\n"
    )
    assert findings(tmp_path, "A.java", text) == ['2 "nobody"', '4 "Somebody"', '5 "whoever"']


def test_comments_of_shell_are_read_and_commands_are_not(tmp_path: Path) -> None:
    text = "#!/bin/sh nobody\n# nobody waits\nsu nobody\n# shellcheck disable=nobody\n"
    assert findings(tmp_path, "run.sh", text) == ['2 "nobody"']


def test_build_output_and_clusters_are_left_out(tmp_path: Path) -> None:
    for name in ("docs/a.rst", ".aio/b.rst", "java/target/c.java", "rules/d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert passages.files(tmp_path) == [tmp_path / "docs/a.rst"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "page.rst").write_text("Nobody waits. Nobody asks.\n")
    return tmp_path


def test_a_finding_is_an_error(checkout: Path, capsys: Captured) -> None:
    (checkout / "other.rst").write_text("All is well.\n")
    assert main([], checkout) == 1
    assert capsys.readouterr().out.count("page.rst:1:") == 2
    assert main([str(checkout / "other.rst")], checkout) == 0
    assert main([str(checkout)], checkout) == 1


def test_a_checkout_without_findings_is_fine(checkout: Path, capsys: Captured) -> None:
    (checkout / "page.rst").write_text("All is well.\n")
    assert main([], checkout) == 0
    assert capsys.readouterr().out == ""
