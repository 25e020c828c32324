"""Credentials and what they become."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storlet_client import ConfigurationError, Keystone, LoginFailed, Storlets, Tempauth, Token
from storlet_client.login import Credentials, from_environment, without_keystone
from tests.unit.client.server import ACCOUNT, Reply, Server

OS = {
    "OS_AUTH_URL": "http://k/v3",
    "OS_USERNAME": "ada",
    "OS_PASSWORD": "s",
    "OS_PROJECT_NAME": "p",
}


def test_a_token_comes_before_everything_else() -> None:
    environ = {"OS_STORAGE_URL": "http://s/", "OS_AUTH_TOKEN": "t", **OS}
    assert from_environment(environ) == Token("http://s/", "t")


def test_an_option_comes_before_all_variables(tmp_path: Path) -> None:
    """Else a command would be performed in another account than that of the option."""
    file = tmp_path / "clouds.yaml"
    auth = "{auth_url: 'http://k', username: u, password: s}"
    file.write_text(f"clouds: {{lab: {{auth_type: v1password, auth: {auth}}}}}\n")
    variables = {
        "OS_STORAGE_URL": "http://s",
        "OS_AUTH_TOKEN": "t",
        "OS_CLIENT_CONFIG_FILE": str(file),
    }
    assert from_environment(variables, cloud="lab") == Tempauth("http://k", "u", "s")
    assert from_environment(variables, storage_url="http://x") == Token("http://x", "t")
    others = {"ST_AUTH": "http://a", "ST_USER": "u", "ST_KEY": "k"}
    for environ in (others, OS, {**variables, "OS_AUTH_TOKEN": ""}):
        with pytest.raises(ConfigurationError, match=r"^--os-storage-url needs --os-auth-token$"):
            from_environment(environ, storage_url="http://x")
        with pytest.raises(ConfigurationError, match=r"^--os-auth-token needs --os-storage-url$"):
            from_environment({**environ, "OS_STORAGE_URL": ""}, token="t")


def test_a_password_has_names_with_the_default_domain() -> None:
    found = from_environment({**OS, "OS_REGION_NAME": "r", "OS_INTERFACE": "internalURL"})
    assert isinstance(found, Keystone)
    user = {"name": "ada", "domain": {"id": "default"}, "password": "s"}
    assert found.identity == {"methods": ["password"], "password": {"user": user}}
    assert found.scope == {"name": "p", "domain": {"id": "default"}}
    assert (found.region, found.interface) == ("r", "internal")


def test_an_application_credential_has_no_scope() -> None:
    found = from_environment(
        {
            "OS_AUTH_URL": "http://k",
            "OS_APPLICATION_CREDENTIAL_ID": "i",
            "OS_APPLICATION_CREDENTIAL_SECRET": "s",
        }
    )
    assert isinstance(found, Keystone)
    assert found.identity["application_credential"] == {"secret": "s", "id": "i"}
    assert found.scope is None


@pytest.mark.parametrize(
    ("environ", "faults"),
    [
        ({}, ["no credentials"]),
        ({"ST_AUTH": "http://a"}, ["ST_USER is missing", "ST_KEY is missing"]),
        ({"OS_STORAGE_URL": "http://s"}, ["OS_STORAGE_URL needs OS_AUTH_TOKEN"]),
        (
            {"OS_AUTH_URL": "http://k"},
            ["username is missing", "password is missing", "project_name is missing"],
        ),
        (
            {"OS_AUTH_URL": "http://k", "OS_AUTH_TYPE": "v3passwort"},
            ["auth type 'v3passwort' is unknown"],
        ),
    ],
)
def test_all_missing_parts_are_named(environ: dict[str, str], faults: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_environment(environ)
    assert len(caught.value.faults) == len(faults)
    for expected, found in zip(faults, caught.value.faults, strict=True):
        assert expected in found


def test_variables_can_have_both_kinds_of_authentication() -> None:
    """The OpenStack client has version 1 with the plugin of python-swiftclient."""
    variables = {"OS_AUTH_URL": "http://a", "OS_USERNAME": "t:u", "OS_PASSWORD": "secret"}
    found = from_environment({**variables, "OS_AUTH_TYPE": "v1password"})
    assert found == Tempauth("http://a", "t:u", "secret")


V1 = {"ST_AUTH": "http://a", "ST_USER": "t:u", "ST_KEY": "secret"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"OS_AUTH_URL": "http://k", "OS_TOKEN": "t"}, None),
        ({"OS_STORAGE_URL": "http://s"}, None),
        (V1, Tempauth("http://a", "t:u", "secret")),
        ({**V1, "OS_STORAGE_URL": "http://s", "OS_AUTH_TOKEN": "t"}, Token("http://s", "t")),
    ],
)
def test_credentials_of_the_environment_that_need_no_keystone(
    environ: dict[str, str], expected: Credentials | None
) -> None:
    assert without_keystone(environ) == expected


@pytest.mark.parametrize("auth_type", ["v1password", "password"])
def test_a_cloud_can_have_both_kinds_of_authentication(tmp_path: Path, auth_type: str) -> None:
    file = tmp_path / "clouds.yaml"
    file.write_text(
        f"clouds: {{lab: {{auth_type: {auth_type}, auth: {{auth_url: 'http://k', username: u,"
        " password: s, project_id: p}}}}\n".replace("}}}}", "}}}")
    )
    environ = {"OS_CLIENT_CONFIG_FILE": str(file), "OS_CLOUD": "lab"}
    expected = Tempauth if auth_type == "v1password" else Keystone
    assert isinstance(from_environment(environ), expected)


@pytest.mark.parametrize("auth_type", ["v1password", "password"])
def test_a_cloud_has_its_own_trusted_certificates(tmp_path: Path, auth_type: str) -> None:
    file = tmp_path / "clouds.yaml"
    auth = "{auth_url: 'http://k', username: u, password: s, project_id: p, token: null}"
    environ = {"OS_CLIENT_CONFIG_FILE": str(file), "OS_CLOUD": "lab"}
    none = tmp_path / "none.pem"
    for line, expected in (
        ("verify: true", True),
        ("verify: false", False),
        (f"cacert: {none}", str(none)),
        (f"verify: false, cacert: {none}", False),
    ):
        file.write_text(f"clouds: {{lab: {{auth_type: {auth_type}, {line}, auth: {auth}}}}}\n")
        found = from_environment(environ)
        assert isinstance(found, (Keystone, Tempauth))
        assert found.verify == expected
        if expected == str(none):
            with pytest.raises(ConfigurationError, match=r"none\.pem: no trusted certificates"):
                Storlets(found)
            Storlets(found, verify=False).close()


def keystone(server: Server, catalog: list[object]) -> None:
    body = json.dumps({"token": {"catalog": catalog}}).encode()
    reply = Reply(201, {"X-Subject-Token": "secret-token"}, body)
    server.replies["POST", "/v3/auth/tokens"] = reply


def test_keystone_gives_the_endpoint_of_the_region(server: Server) -> None:
    endpoints = [
        {"interface": "public", "region": "one", "url": "http://127.0.0.1:1/v1/AUTH_x"},
        {"interface": "internal", "region": "two", "url": "http://127.0.0.1:1/v1/AUTH_x"},
        {"interface": "public", "region": "two", "url": server.url + ACCOUNT},
    ]
    keystone(server, [{"type": "object-store", "endpoints": endpoints}])
    server.on("HEAD", "", Reply(204, {"X-Account-Meta-Storlet-Enabled": "true"}))
    credentials = Keystone(server.url, {"methods": ["token"]}, {"id": "p"}, region="two")
    with Storlets(credentials) as storlets:
        assert storlets.info().storlet_container == "storlet"
    sent = json.loads(server.received[0].body)
    assert sent == {"auth": {"identity": {"methods": ["token"]}, "scope": {"project": {"id": "p"}}}}


def test_an_unknown_region_names_the_known_ones(server: Server) -> None:
    endpoints = [{"interface": "public", "region": "one", "url": "http://h"}]
    keystone(server, [{"type": "object-store", "endpoints": endpoints}])
    credentials = Keystone(server.url, {}, region="two")
    with Storlets(credentials) as storlets, pytest.raises(LoginFailed, match="there are one"):
        storlets.info()


def test_refused_credentials_are_a_failed_login(server: Server) -> None:
    server.replies["GET", "/auth/v1.0"] = Reply(401)
    credentials = Tempauth(server.auth_url, "u", "secret-key")
    with Storlets(credentials) as storlets, pytest.raises(LoginFailed) as caught:
        storlets.info()
    assert "secret-key" not in str(caught.value)
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(503, body=b"<html><h1>Down</h1><p>Come\nback.</p></html>"), "503: Down: Come back."),
        (Reply(500, body=b'{"error": {"message": "No\\ndatabase.", "code": 500}}'), "500: No database."),
        (Reply(500, body=b"word " * 1000), "500: word word"),
        (Reply(404), "404: not found"),
        (Reply(301, {"Location": "https://h/v3"}), "301: the server is now at https://h/v3: correct"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_keystone", [False, True])
def test_a_login_that_fails_has_its_reason_in_one_line(
    server: Server, reply: Reply, reason: str, is_keystone: bool
) -> None:
    server.replies["GET", "/auth/v1.0"] = server.replies["POST", "/v3/auth/tokens"] = reply
    tempauth = Tempauth(server.auth_url, "u", "secret-key")
    credentials = Keystone(server.url, {}) if is_keystone else tempauth
    with Storlets(credentials) as storlets, pytest.raises(LoginFailed) as caught:
        storlets.info()
    text = str(caught.value)
    assert reason in text
    assert len(text.splitlines()) == 1
    assert len(text) < 300
