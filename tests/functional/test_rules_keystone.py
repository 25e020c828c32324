"""Rules about Keystone's callers: the proxy has ``keystoneauth`` and the identity headers of
``authtoken``.

``authtoken`` itself is left out: it would validate the token with a Keystone server, and remove
these headers from the client's request.
"""

from __future__ import annotations

import configparser
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.accounts import prepare_account
from tests.support.cluster import Cluster
from tests.support.http import Answer, Client
from tests.support.proxies import other_proxy
from tests.support.storlets import SOURCES, declaration

CONTENT = b"name: SECRET\n" * 50
MASKED = CONTENT.replace(b"SECRET", b"------")


@dataclass(frozen=True)
class Person:
    """The identity headers that Keystone confirms for a user."""

    name: str
    roles: str
    project: str
    domain: str = "Default"

    @property
    def headers(self) -> dict[str, str]:
        return {
            "X-Identity-Status": "Confirmed",
            "X-User-Id": f"id-of-{self.name}",
            "X-User-Name": self.name,
            "X-User-Domain-Id": self.domain.lower(),
            "X-User-Domain-Name": self.domain,
            "X-Project-Id": self.project,
            "X-Project-Name": f"project-{self.project}",
            "X-Project-Domain-Id": "default",
            "X-Project-Domain-Name": "Default",
            "X-Roles": self.roles,
        }


@dataclass
class Ward:
    """An account of a project, and clients with identities."""

    url: str
    project: str

    def client(self, person: Person) -> Client:
        return _Identified(f"{self.url}/AUTH_{self.project}", "", person.name, person)

    @property
    def owner(self) -> Client:
        return self.client(Person("olga", "admin", self.project))


class _Identified(Client):
    """Sends a person's identity with every request."""

    def __init__(self, storage_url: str, token: str, user: str, person: Person) -> None:
        super().__init__(storage_url, token, user)
        self._person = person

    def request(self, method: str, path: str, headers: object = None, **more: object) -> Answer:
        return super().request(
            method, path, {**self._person.headers, **dict(headers or {})}, **more
        )  # type: ignore[call-overload, arg-type]


@pytest.fixture(scope="module")
def ward(cluster: Cluster) -> Iterator[Ward]:
    config = configparser.RawConfigParser()
    config.read(Path(cluster.description["conf_dir"], "proxy-server.conf"))
    words = config.get("pipeline:main", "pipeline").split()
    pipeline = ["keystoneauth" if word == "tempauth" else word for word in words if word != "s3api"]
    changes = {
        "pipeline:main": {"pipeline": " ".join(pipeline)},
        "filter:keystoneauth": {"use": "egg:swift#keystoneauth", "operator_roles": "admin"},
    }
    with other_proxy(cluster, changes) as proxy:
        made = Ward(f"http://127.0.0.1:{proxy.port}/v1", uuid.uuid4().hex)
        owner = made.owner
        prepare_account(owner)
        assert owner.post("storlet", {"X-Container-Read": "*:*"}).status == 204
        assert owner.put("patients", b"", {"X-Container-Read": "*:*"}).status == 201
        assert owner.put("storlet_rules").status == 201
        assert owner.put("patients/a", CONTENT).status == 201
        source = (SOURCES / "rules_tools.py").read_bytes()
        assert (
            owner.put("storlet/mask.py", source, declaration("python", "mask.Mask")).status == 201
        )
        yield made


ADA = Person("ada", "researcher,member", "p-other")
PEOPLE = {
    "roles: [Researcher]": (ADA, replace(ADA, roles="member")),
    "user: ada": (ADA, replace(ADA, name="eve")),
    "project: project-p-other": (ADA, replace(ADA, project="p-third")),
    "domain: Default": (ADA, replace(ADA, domain="Other")),
    "not: {roles: [physician]}": (ADA, replace(ADA, roles="physician")),
    "anonymous: false, signed: false": (ADA, None),
}


@pytest.mark.parametrize("condition", PEOPLE)
def test_a_rule_applies_to_keystone_callers(ward: Ward, condition: str) -> None:
    concerned, other = PEOPLE[condition]
    text = (
        "version: 1\nrules:\n"
        f"  - {{name: hide, when: {{method: GET, container: patients, {condition}}}, mandatory: true, run: mask.py}}\n"
    )
    headers = {"X-Storlet-Rules-Accept-Warnings": "true"}
    assert ward.owner.put("storlet_rules/rules.yaml", text.encode(), headers).status == 201
    answer = ward.client(concerned).get("patients/a")
    assert (answer.status, answer.body, answer.headers["X-Storlet-Rule"]) == (
        200,
        MASKED,
        "hide",
    ), answer
    refused = ward.client(concerned).get("patients/a", {"Range": "bytes=0-3"})
    assert (refused.status, refused.error) == (403, "access.rule"), refused
    if other is not None:
        answer = ward.client(other).get("patients/a")
        assert (answer.status, answer.body, answer.headers["X-Storlet-Rule"]) == (
            200,
            CONTENT,
            None,
        ), answer


def test_pages_that_staticweb_makes_are_covered(ward: Ward) -> None:
    """Its own requests have no identity headers."""
    rule = (
        "version: 1\nrules:\n"
        "- {name: hide, when: {method: GET, container: patients, roles: researcher},"
        " mandatory: true, run: mask.py}\n"
    )
    headers = {"X-Storlet-Rules-Accept-Warnings": "true"}
    assert ward.owner.put("storlet_rules/rules.yaml", rule.encode(), headers).status == 201
    pages = {"X-Container-Meta-Web-Listings": "true", "X-Container-Meta-Web-Error": "error.html"}
    assert ward.owner.post("patients", pages).status == 204
    assert ward.owner.put("patients/404error.html", CONTENT).status == 201
    for person, size, page in (
        (ADA, ">0<", MASKED),
        (replace(ADA, roles="member"), ">650<", CONTENT),
    ):
        caller = ward.client(person)
        assert size in caller.get("patients/", {"X-Web-Mode": "true"}).text
        answer = caller.get("patients/none", {"X-Web-Mode": "true"})
        assert (answer.status, answer.body) == (404, page), answer


def test_identity_headers_without_keystone_are_ignored(ward: Ward) -> None:
    """Identity headers count only if Keystone confirmed them; Swift refuses the request
    otherwise."""
    forged = dict(ADA.headers) | {"X-Identity-Status": "Invalid"}
    answer = Client(f"{ward.url}/AUTH_{ward.project}", "").get("patients/a", forged)
    assert answer.status == 401, answer
    assert b"SECRET" not in answer.body
