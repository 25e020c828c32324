"""``etc/storlet.conf-sample`` is made from the table of options."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

from storlet_middleware.config import CLASS_OPTIONS, OPTIONS, parse, sample

ROOT = Path(__file__).parents[4]


def test_the_sample_file_agrees_with_the_table_and_parses() -> None:
    assert (ROOT / "etc/storlet.conf-sample").read_text() == sample()
    printed = subprocess.run(
        [sys.executable, "-m", "storlet_middleware.config"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout == sample()
    uncommented = re.sub(r"(?m)^# (\w+ = |\[image:)", r"\1", sample())
    config = parse(uncommented)
    assert config.images == {"AUTH_example": "example/storlets:1"}
    assert dataclasses.replace(config, images={}) == parse("")


def test_every_option_and_its_meaning_are_in_the_section_of_the_option() -> None:
    sections = dict(re.findall(r"(?ms)^\[([a-z:]+)\]\n(.*?)(?=^\[|\Z)", sample()))
    for row in OPTIONS:
        text = sections[row.section]
        assert re.search(rf"(?m)^# {row.name} =", text), row
        assert " ".join(row.meaning.split()) in " ".join(text.replace("#", " ").split()), row


def test_the_lines_fit_into_100_columns() -> None:
    assert [line for line in sample().splitlines() if len(line) > 100] == []


def test_only_the_admin_class_shows_the_options_that_only_it_has() -> None:
    user, admin = sample().split("[class:user]")[1].split("[class:admin]")
    admin_only = {row.name for row in CLASS_OPTIONS if row.is_admin_only}
    assert admin_only
    for name in admin_only:
        assert f"# {name} =" not in user
        assert f"# {name} =" in admin
