"""Credentials: where they are found, and how they become a token and the URL of an account.

:func:`from_environment` takes the first of these that is there:

1. ``--os-storage-url`` and ``--os-auth-token``, or ``OS_STORAGE_URL`` and ``OS_AUTH_TOKEN``
2. ``--os-cloud`` or ``OS_CLOUD``: an entry of ``clouds.yaml``
3. ``OS_AUTH_URL`` and the other ``OS_*`` variables: Keystone, with a password, an application
   credential or a token
4. ``ST_AUTH``, ``ST_USER`` and ``ST_KEY``: version 1 authentication, such as tempauth

An option comes before all variables: it is never left out because of one.

Keystone answers one request of its API version 3.  The libraries for it are synchronous and
larger than the rest of this package together.
"""

from __future__ import annotations

import contextlib
import json
import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Union

from storlet_client.errors import (
    ConfigurationError,
    LoginFailed,
    plain,
    reason,
    without_credentials,
)
from storlet_client.exchange import Answer, Call, Flow

#: The type of Swift in a Keystone catalog.
_SERVICE = "object-store"
#: The most of a reason that an error has.
_REASON_CHARACTERS = 200


@dataclass(frozen=True)
class Account:
    """A token, and the URL of the account that it is for."""

    url: str
    token: str


@dataclass(frozen=True)
class Token:
    """A token and an account's URL that are known already; it cannot be renewed."""

    storage_url: str
    token: str
    can_renew: bool = False

    def log_in(self) -> Flow[Account]:
        return Account(self.storage_url.rstrip("/"), self.token)
        yield  # a flow without requests


@dataclass(frozen=True)
class Tempauth:
    """Version 1 authentication.

    :param auth_url: such as ``http://127.0.0.1:8080/auth/v1.0``.
    :param verify: whether certificates are checked, or the path of trusted ones.
    """

    auth_url: str
    user: str
    key: str
    can_renew: bool = True
    verify: bool | str = True

    def log_in(self) -> Flow[Account]:
        headers = {"X-Auth-User": self.user, "X-Auth-Key": self.key}
        answer = yield Call("GET", headers=headers, url=self.auth_url)
        _require_success(answer, self.auth_url, self.user)
        try:
            url, token = answer.headers["x-storage-url"], answer.headers["x-auth-token"]
        except KeyError as error:
            where = without_credentials(self.auth_url)
            raise LoginFailed(
                f"{where}: the answer has no {error.args[0]}: is it a version 1 authentication URL?"
            ) from None
        return Account(url.rstrip("/"), token)


@dataclass(frozen=True)
class Keystone:
    """Keystone, API version 3.

    :param auth_url: with or without ``/v3``.
    :param identity: the ``identity`` of the request: see :func:`password`,
        :func:`application_credential` and :func:`token`.
    :param scope: the project, or ``None`` for an application credential, which has one.
    :param region: of the endpoint; empty: the first one.
    :param verify: as of :class:`Tempauth`.
    """

    auth_url: str
    identity: Mapping[str, Any]
    scope: Mapping[str, Any] | None = None
    region: str = ""
    interface: str = "public"
    can_renew: bool = True
    verify: bool | str = True

    def log_in(self) -> Flow[Account]:
        url = self.auth_url.rstrip("/")
        url += "/auth/tokens" if url.endswith("/v3") else "/v3/auth/tokens"
        auth: dict[str, Any] = {"identity": dict(self.identity)}
        if self.scope is not None:
            auth["scope"] = {"project": dict(self.scope)}
        answer = yield Call(
            "POST",
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            body=json.dumps({"auth": auth}).encode(),
            url=url,
        )
        _require_success(answer, self.auth_url, "these credentials")
        try:
            token, catalog = answer.headers["x-subject-token"], json.loads(answer.body)["token"]
            return Account(self._endpoint(catalog.get("catalog") or []), token)
        except (KeyError, TypeError, ValueError):
            where = without_credentials(url)
            raise LoginFailed(f"{where}: the answer is not one of Keystone") from None

    def _endpoint(self, catalog: list[dict[str, Any]]) -> str:
        endpoints = [
            endpoint
            for service in catalog
            if service["type"] == _SERVICE
            for endpoint in service["endpoints"]
            if endpoint["interface"] == self.interface
        ]
        regions = [str(endpoint.get("region") or "") for endpoint in endpoints]
        if self.region:
            endpoints = [each for each, region in zip(endpoints, regions) if region == self.region]
        if not endpoints:
            known = f" (there are {', '.join(sorted(set(regions)))})" if regions else ""
            where = f" in region {self.region}{known}" if self.region else ""
            url = without_credentials(self.auth_url)
            raise LoginFailed(
                f"{url}: the catalog has no {self.interface} endpoint of type"
                f" {_SERVICE}{where}: are the project and the interface right?"
            )
        return str(endpoints[0]["url"]).rstrip("/")


Credentials = Union[Token, Tempauth, Keystone]


def _require_success(answer: Answer, auth_url: str, who: str) -> None:
    url = without_credentials(auth_url)
    if answer.status in (401, 403):
        raise LoginFailed(
            f"{url} refuses {who} ({answer.status}): check user, password and project"
        )
    if answer.status // 100 != 2:
        raise LoginFailed(f"{url}: {answer.status}: {_reason(answer)}")


def _reason(answer: Answer) -> str:
    """The reason of an answer in one line; Keystone's are JSON, and those of others often HTML."""
    text = answer.text
    with contextlib.suppress(KeyError, TypeError, ValueError):
        text = str(json.loads(text)["error"]["message"])
    found = textwrap.shorten(plain(text), _REASON_CHARACTERS, placeholder=" ...")
    return found or reason(answer.status, answer.headers)


# --- identities of Keystone -----------------------------------------------------------------------


def keystone(auth_type: str, auth: Mapping[str, str], where: str) -> Keystone:
    """Credentials from the keys of ``auth`` in ``clouds.yaml``.

    :param auth_type: ``password``, ``v3applicationcredential``, ``token``, or an alias.
    :param where: the origin of the values, for errors.
    """
    method = _METHODS.get(auth_type)
    if method is None:
        known = ", ".join(_METHODS)
        raise ConfigurationError(
            [f"{where}: auth type {auth_type!r} is unknown: use one of {known}"]
        )
    faults: list[str] = []
    if not auth.get("auth_url"):
        faults.append(f"{where}: auth_url is missing: the URL of Keystone")
    identity, has_project = method(auth, where, faults)
    scope = _scope(auth, where, faults) if has_project else None
    if faults:
        raise ConfigurationError(faults)
    return Keystone(auth["auth_url"], identity, scope)


def _password(
    auth: Mapping[str, str], where: str, faults: list[str]
) -> tuple[dict[str, Any], bool]:
    user = _named(auth, "user", "username", where, faults)
    if not auth.get("password"):
        faults.append(f"{where}: password is missing")
    user["password"] = auth.get("password", "")
    return {"methods": ["password"], "password": {"user": user}}, True


def _application(
    auth: Mapping[str, str], where: str, faults: list[str]
) -> tuple[dict[str, Any], bool]:
    credential: dict[str, Any] = {"secret": auth.get("application_credential_secret", "")}
    if not credential["secret"]:
        faults.append(f"{where}: application_credential_secret is missing")
    if auth.get("application_credential_id"):
        credential["id"] = auth["application_credential_id"]
    elif auth.get("application_credential_name"):
        credential["name"] = auth["application_credential_name"]
        credential["user"] = _named(auth, "user", "username", where, faults)
    else:
        faults.append(f"{where}: application_credential_id is missing")
    return {"methods": ["application_credential"], "application_credential": credential}, False


def _token(auth: Mapping[str, str], where: str, faults: list[str]) -> tuple[dict[str, Any], bool]:
    if not auth.get("token"):
        faults.append(f"{where}: token is missing")
    return {"methods": ["token"], "token": {"id": auth.get("token", "")}}, True


_METHODS = {
    "password": _password,
    "v3password": _password,
    "v3applicationcredential": _application,
    "token": _token,
    "v3token": _token,
}


def _named(
    auth: Mapping[str, str], kind: str, name_key: str, where: str, faults: list[str]
) -> dict[str, Any]:
    """A user or a project: its id, or its name and domain."""
    if auth.get(f"{kind}_id"):
        return {"id": auth[f"{kind}_id"]}
    if not auth.get(name_key):
        faults.append(f"{where}: {name_key} is missing")
    domain_id = auth.get(f"{kind}_domain_id") or auth.get("domain_id")
    domain_name = auth.get(f"{kind}_domain_name") or auth.get("domain_name")
    if domain_name:
        domain = {"name": domain_name}
    else:
        domain = {"id": domain_id or auth.get("default_domain") or "default"}
    return {"name": auth.get(name_key, ""), "domain": domain}


def _scope(auth: Mapping[str, str], where: str, faults: list[str]) -> dict[str, Any]:
    return _named(auth, "project", "project_name", where, faults)


# --- where they are -------------------------------------------------------------------------------


def from_environment(
    environ: Mapping[str, str] | None = None,
    *,
    cloud: str = "",
    storage_url: str = "",
    token: str = "",
) -> Credentials:
    """The credentials of options and environment variables: see the module.

    :raises ConfigurationError: there are none, or some are missing.
    """
    environ = os.environ if environ is None else environ
    is_option = bool(storage_url or token)
    if cloud and not is_option:
        return _of_cloud(cloud, environ)
    storage_url = storage_url or environ.get("OS_STORAGE_URL", "")
    token = token or environ.get("OS_AUTH_TOKEN", "")
    cloud = cloud or environ.get("OS_CLOUD", "")
    if storage_url and token:
        return Token(storage_url, token)
    if is_option:
        # Another login would be one to another account than that of the option.
        raise _half("--os-storage-url", "--os-auth-token", storage_url)
    if cloud:
        return _of_cloud(cloud, environ)
    if environ.get("OS_AUTH_URL"):
        return _of_variables(environ)
    if any(environ.get(name) for name in _V1):
        return _of_v1(environ)
    if storage_url or token:
        raise _half("OS_STORAGE_URL", "OS_AUTH_TOKEN", storage_url)
    raise ConfigurationError(
        [
            (
                "no credentials: set OS_CLOUD (with clouds.yaml), or OS_AUTH_URL and the other OS_*"
                " variables, or ST_AUTH, ST_USER and ST_KEY, or OS_STORAGE_URL and OS_AUTH_TOKEN"
            )
        ]
    )


def without_keystone(environ: Mapping[str, str] | None = None) -> Token | Tempauth | None:
    """The credentials of the environment that need neither Keystone nor ``clouds.yaml``.

    ``None`` without any.
    """
    environ = os.environ if environ is None else environ
    storage_url, token = environ.get("OS_STORAGE_URL", ""), environ.get("OS_AUTH_TOKEN", "")
    if storage_url and token:
        return Token(storage_url, token)
    return _of_v1(environ) if any(environ.get(name) for name in _V1) else None


def _half(of_url: str, of_token: str, storage_url: str) -> ConfigurationError:
    """A URL without a token, or a token without a URL, by the names of both."""
    there, missing = (of_url, of_token) if storage_url else (of_token, of_url)
    return ConfigurationError([f"{there} needs {missing}"])


#: The name of version 1 authentication among the types of authentication.
_V1_TYPE = "v1password"
_V1 = {"ST_AUTH": "the authentication URL", "ST_USER": "account:user", "ST_KEY": "the password"}


def _of_v1(environ: Mapping[str, str]) -> Tempauth:
    faults = [f"{name} is missing: {what}" for name, what in _V1.items() if not environ.get(name)]
    if faults:
        raise ConfigurationError(faults)
    return Tempauth(environ["ST_AUTH"], environ["ST_USER"], environ["ST_KEY"])


def _v1_of(auth: Mapping[str, str]) -> Tempauth:
    """The credentials of the plugin of python-swiftclient, by the names that it has for them."""
    names = zip(_V1, ("auth_url", "username", "password"))
    return _of_v1({variable: auth.get(name, "") for variable, name in names})


def _of_variables(environ: Mapping[str, str]) -> Credentials:
    auth = {
        name[3:].lower(): value
        for name, value in environ.items()
        if name.startswith("OS_") and value
    }
    auth.setdefault("project_name", auth.get("tenant_name", ""))
    auth_type = auth.get("auth_type") or (
        "v3applicationcredential"
        if auth.get("application_credential_id") or auth.get("application_credential_name")
        else "token"
        if auth.get("token")
        else "password"
    )
    if auth_type == _V1_TYPE:
        return _v1_of(auth)
    found = keystone(auth_type, auth, "OS_* variables")
    return replace(
        found, region=auth.get("region_name", ""), interface=_interface(auth.get("interface"))
    )


def _of_cloud(name: str, environ: Mapping[str, str]) -> Credentials:
    from storlet_client import clouds  # noqa: PLC0415 - parsing YAML takes time that other logins do not need

    entry = clouds.find(name, environ)
    where = f"cloud {name}"
    auth = {key: str(value) for key, value in entry["auth"].items() if value is not None}
    auth_type = str(entry.get("auth_type") or "password")
    if auth_type == _V1_TYPE:
        return replace(_v1_of(auth), verify=_verify(entry))
    found = keystone(auth_type, auth, where)
    return replace(
        found,
        verify=_verify(entry),
        region=str(entry.get("region_name") or ""),
        interface=_interface(entry.get("interface")),
    )


def _verify(entry: Mapping[str, Any]) -> bool | str:
    """``verify`` and ``cacert`` of a cloud."""
    if entry.get("verify") is False:
        return False
    cacert = entry.get("cacert")
    return str(Path(str(cacert)).expanduser()) if cacert else True


def _interface(value: str | None) -> str:
    """``publicURL`` is the older spelling of ``public``."""
    return (value or "public").replace("URL", "")
