"""The parts of a subcommand."""

from __future__ import annotations

import argparse
import sys

import pytest

from storlet_middleware.cli import __main__ as command_line
from storlet_middleware.cli import command


def test_every_command_has_a_name_a_help_and_options() -> None:
    for one in command_line.COMMANDS:
        assert one.name
        assert one.help
        one.declare(argparse.ArgumentParser())


def test_the_names_of_commands_differ_and_each_runs_with_its_own_options() -> None:
    names = [one.name for one in command_line.COMMANDS]
    assert len(set(names)) == len(names)
    for one in command_line.COMMANDS:
        assert callable(one.run)
        assert one.description != one.help


def test_the_exit_codes_differ_and_leave_2_to_argparse() -> None:
    codes = [command.DONE, command.NOT_WELL, command.MISUSED, command.NOT_DONE, command.INTERRUPTED]
    assert len(set(codes)) == len(codes)
    with pytest.raises(SystemExit) as ended:
        argparse.ArgumentParser().parse_args(["--unknown"])
    assert ended.value.code == command.MISUSED


def test_results_and_errors_go_to_different_streams(capsys: pytest.CaptureFixture[str]) -> None:
    command.say("result")
    command.say()
    command.complain("error")
    assert capsys.readouterr() == ("result\n\n", "error\n")


def test_an_error_of_a_command_is_printed_without_a_traceback(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command_line.main(["sandboxes", "--conf", "/none/storlet.conf"]) == command.NOT_DONE
    shown = capsys.readouterr()
    assert "/none/storlet.conf" in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_a_closed_standard_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(command.CliError, match="standard output is closed\n    help: "):
        command.say("result")
