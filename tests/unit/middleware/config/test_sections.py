"""The table of options: each is declared once, read from the file, and used."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from storlet_middleware.config import ADMIN_CLASS, OPTIONS, USER_CLASS, Config, Option, parse
from storlet_middleware.engine import limits

ROOT = Path(__file__).parents[4]
SOURCES = [path for path in (ROOT / "storlet_middleware").rglob("*.py") if "/aio/" not in str(path)]


def test_every_option_is_read_somewhere() -> None:
    code = "\n".join(path.read_text() for path in SOURCES if path.parent.name != "config")
    read = {row.option for row in limits.TABLE}
    unread = [
        f"[{option.section}] {option.name}"
        for option in OPTIONS
        if option.name not in read and not re.search(_use_of(option), code)
    ]
    assert unread == []


def _use_of(option: Option) -> str:
    """A pattern of the code that reads the option."""
    prefix = rf"\b{option.section}" if option.language else ""
    return rf"{prefix}\.{option.field}\b"


def test_the_table_and_the_classes_have_the_same_options() -> None:
    fields = [
        (section.name, option.name)
        for section in dataclasses.fields(Config)
        if section.name not in ("path", "classes", "images")
        for option in dataclasses.fields(type(getattr(parse(""), section.name)))
    ]
    assert fields == list(dict.fromkeys((option.section, option.field) for option in OPTIONS))
    names = [
        f"{option.field}_{option.language}" if option.language else option.field
        for option in OPTIONS
    ]
    assert names == [option.name for option in OPTIONS]


def test_the_class_of_a_storlet_is_admin_by_account_or_by_name() -> None:
    config = parse("[class:admin]\naccounts = AUTH_a\nstorlets = AUTH_b/one.py\n")
    classes = {
        (account, name): config.class_of(account, name).name
        for account in ("AUTH_a", "AUTH_b", "AUTH_c")
        for name in ("one.py", "two.py")
    }
    admin = {key for key, name in classes.items() if name == ADMIN_CLASS}
    assert admin == {("AUTH_a", "one.py"), ("AUTH_a", "two.py"), ("AUTH_b", "one.py")}


def test_an_account_has_its_own_image_or_the_default() -> None:
    config = parse("[image:AUTH_a]\nimage = own:1\n[sandbox]\nimage = all:1\n")
    assert (config.image_of("AUTH_a"), config.image_of("AUTH_b")) == ("own:1", "all:1")


def test_a_class_has_the_limits_of_the_node_that_it_does_not_lower() -> None:
    config = parse("[limits]\npids = 100\n[class:user]\npids = 50\n")
    assert config.classes[USER_CLASS].limits.pids == 50
    assert config.classes[ADMIN_CLASS].limits == config.limits


def test_names_of_options_are_unique_in_their_section_and_limits_have_unique_headers() -> None:
    names = [(row.section, row.name) for row in OPTIONS]
    assert len(set(names)) == len(names)
    headers = [row.limit.name for row in OPTIONS if row.limit]
    assert len(set(headers)) == len(headers)
    for row in OPTIONS:
        if row.part_of:
            assert (row.section, row.part_of) in names


def test_all_versions_of_a_bundle_are_of_one_class() -> None:
    config = parse("[class:admin]\nstorlets = AUTH_b/thumb\n")
    admin = [
        name
        for name in ("thumb", "thumb@3", "thumb@3.py", "other@3")
        if config.class_of("AUTH_b", name).name == ADMIN_CLASS
    ]
    assert admin == ["thumb", "thumb@3"]
