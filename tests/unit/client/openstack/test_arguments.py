"""Arguments of a command of ``storlet`` for a parser of the OpenStack client, and back."""

from __future__ import annotations

import argparse

import click
import pytest

from storlet_client.cli.main import cli
from storlet_client.openstack.arguments import add, command_of, positive, words_of


def parsed(command: click.Command, words: list[str]) -> list[str]:
    """The words for ``storlet`` after a parser like that of the OpenStack client took ``words``."""
    parser = argparse.ArgumentParser()
    for each in command.params:
        add(parser, each)
    return words_of(command.params, vars(parser.parse_args(words)))


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("delete", ["a.py"], ["--", "a.py"]),
        ("doctor", [], ["--"]),
        ("doctor", ["c", "c/o", "-f", "json"], ["-f", "json", "--", "c", "c/o"]),
        ("rollback", ["fruit", "3"], ["--", "fruit", "3"]),
        ("rollback", ["fruit"], ["--", "fruit"]),
        ("deploy", ["a.py", "--no-check"], ["--no-check", "--", "a.py"]),
        ("deploy", ["a.py", "--check"], ["--check", "--", "a.py"]),
        ("logs", ["a.py"], ["--", "a.py"]),
        ("logs", ["a.py", "tx1-1"], ["--", "a.py", "tx1-1"]),
        (
            "logs",
            ["a.py", "--failed", "--since", "1h", "--limit", "3"],
            ["--failed", "--since", "1h", "--limit", "3", "--", "a.py"],
        ),
        (
            "replay",
            ["tx1-1", "--any-version", "-o", "out", "-f", "json"],
            ["--any-version", "-o", "out", "-f", "json", "--", "tx1-1"],
        ),
        ("distribute", ["up.py", "c"], ["--", "up.py", "c"]),
        (
            "distribute",
            ["up.py", "--objects", "l.txt", "-p", "a=b", "--concurrency", "3", "--report"],
            ["-p", "a=b", "--objects", "l.txt", "--concurrency", "3", "--report", "--", "up.py"],
        ),
        ("rules show", [], ["--"]),
        ("rules put", ["--accept-warnings", "r.yaml"], ["--accept-warnings", "--", "r.yaml"]),
        ("rules decide", ["GET", "c/o"], ["--", "GET", "c/o"]),
        ("invoke", ["a", "c/o", "--on-proxy"], ["--on-proxy", "--", "a", "c/o"]),
        (
            "invoke",
            ["-p", "k=1", "a", "c/o", "-p", "l=2 3", "--to", "d/p"],
            ["-p", "k=1", "-p", "l=2 3", "--to", "d/p", "--", "a", "c/o"],
        ),
    ],
)
def test_the_command_gets_the_same_arguments(
    name: str, given: list[str], expected: list[str]
) -> None:
    assert parsed(command_of(cli, name), given) == expected


def test_each_option_has_its_help() -> None:
    parser = argparse.ArgumentParser()
    for each in cli.commands["invoke"].params:
        add(parser, each)
    assert "Upload this file through the storlet." in " ".join(parser.format_help().split())


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", ""])
def test_a_number_from_1_is_nothing_else(text: str) -> None:
    assert positive("20") == 20
    with pytest.raises(argparse.ArgumentTypeError, match="want a number from 1"):
        positive(text)
