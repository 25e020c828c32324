"""Entries of clouds.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlet_client import ConfigurationError
from storlet_client.clouds import find

TEXT = "clouds:\n  lab:\n    region_name: one\n    auth: {auth_url: http://k, username: ada}\n"


def test_secrets_are_merged_from_the_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "clouds.yaml").write_text(TEXT)
    (tmp_path / "secure.yaml").write_text("clouds:\n  lab:\n    auth: {password: s}\n")
    environ = {"OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")}
    assert find("lab", environ) == {
        "region_name": "one",
        "auth": {"auth_url": "http://k", "username": "ada", "password": "s"},
    }


def test_the_file_of_the_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "home/.config/openstack"
    folder.mkdir(parents=True)
    (folder / "clouds.yaml").write_text(TEXT)
    assert find("lab", {"HOME": str(tmp_path / "home")})["region_name"] == "one"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT, "did you mean lab"),
        ("clouds: []\n", "no mapping 'clouds'"),
        ("a: [\n", "clouds.yaml: while parsing"),
    ],
)
def test_faults_name_the_file(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "clouds.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=expected) as caught:
        find("labb", {"OS_CLIENT_CONFIG_FILE": str(file)})
    assert str(file) in str(caught.value)


def test_a_missing_file_names_the_searched_places(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"searched .*none\.yaml"):
        find("lab", {"OS_CLIENT_CONFIG_FILE": str(tmp_path / "none.yaml")})
