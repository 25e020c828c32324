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
        ("a: [\n", r"clouds\.yaml:2:1: expected the node content"),
        ("clouds: {1: {}, two: {}}\n", "it has 1, two"),
        ("clouds: {labb: 3}\n", r"clouds\.yaml: cloud labb: it is no mapping"),
        ("clouds: {labb: {auth: [1]}}\n", r"clouds\.yaml: cloud labb: its 'auth' is no mapping"),
    ],
)
def test_faults_name_the_file(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "clouds.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=expected) as caught:
        find("labb", {"OS_CLIENT_CONFIG_FILE": str(file)})
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    "value", ['"hush', "@hush", "!hush x", "!hush!x", "*hush", "hush\n   - x: [", "\xff hush"]
)
@pytest.mark.parametrize("name", ["clouds.yaml", "secure.yaml"])
def test_a_fault_does_not_show_a_password(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "clouds.yaml").write_text(TEXT)
    text = f"clouds:\n  lab:\n    auth:\n      password: {value}\n"
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=f"/{name}:") as caught:
        find("lab", {"OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")})
    assert "hush" not in str(caught.value)


def test_a_secret_of_another_form_is_named(tmp_path: Path) -> None:
    (tmp_path / "clouds.yaml").write_text(TEXT)
    (tmp_path / "secure.yaml").write_text("clouds: {lab: hush}\n")
    with pytest.raises(ConfigurationError, match=r"secure\.yaml: cloud lab: it is no mapping"):
        find("lab", {"OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")})


def test_a_missing_file_names_the_searched_places(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"searched .*none\.yaml"):
        find("lab", {"OS_CLIENT_CONFIG_FILE": str(tmp_path / "none.yaml")})


@pytest.mark.parametrize("key", ["profile", "cloud"])
def test_a_profile_has_the_values_that_the_entry_lacks(tmp_path: Path, key: str) -> None:
    file, public = tmp_path / "clouds.yaml", tmp_path / "public.yaml"
    file.write_text(f"clouds: {{a: {{{key}: p, region_name: two, auth: {{username: u}}}}}}\n")
    public.write_text("public-clouds: {p: {region_name: one, auth: {auth_url: http://k}}}\n")
    environ = {"OS_CLIENT_CONFIG_FILE": str(file), "OS_CLIENT_VENDOR_FILE": str(public)}
    found = find("a", environ)
    assert found["auth"] == {"auth_url": "http://k", "username": "u"}
    assert found["region_name"] == "two"


def test_a_profile_that_is_not_there_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("clouds.yaml").write_text("clouds: {a: {profile: rackspace, auth: {username: u}}}\n")
    with pytest.raises(ConfigurationError) as caught:
        find("a", {"HOME": str(tmp_path)})
    assert str(caught.value).startswith(
        "clouds.yaml: cloud a: profile rackspace is unknown: there is no clouds-public.yaml or "
    )
    assert str(caught.value).endswith(": write its auth_url and its other values into the entry")
    Path("clouds-public.yaml").write_text("public-clouds: {p: {}}\n")
    with pytest.raises(ConfigurationError, match=r"clouds-public\.yaml has none"):
        find("a", {"HOME": str(tmp_path)})
    Path("clouds.yaml").write_text(
        "clouds: {a: {profile: rackspace}, b: {profile: p, auth: {auth_url: http://k}}}\n"
    )
    Path("clouds-public.yaml").write_text("public-clouds: {q: {}}\n")
    assert find("b", {})["auth"] == {"auth_url": "http://k"}
    Path("clouds-public.yaml").write_text("clouds: {}\n")
    with pytest.raises(ConfigurationError, match="it has no mapping 'public-clouds'"):
        find("a", {"HOME": str(tmp_path)})
