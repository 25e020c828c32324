"""Texts of the diagnosis."""

from __future__ import annotations

from storlet_client.diagnosis.check import command, nearest, suggestion


def test_a_command_can_be_pasted_into_a_shell() -> None:
    assert command("storlet", "grant", "a b", "it's") == "storlet grant 'a b' 'it'\"'\"'s'"


def test_the_nearest_name_is_suggested_if_there_is_one() -> None:
    assert suggestion(nearest("inptu.csv", ["other", "input.csv"])) == " (did you mean input.csv?)"
    assert suggestion(nearest("x", ["other"])) == ""
