"""Fixtures of the black-box tests: users, a container per test, one storlet in two languages.

Tests never configure ``cluster``; tests that need other options use ``other_cluster``.  Only
``test_rolling_upgrade.py`` stops servers of ``cluster``, and each test starts them again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.accounts import (
    LARGE_BYTES,
    delete_large_objects,
    prepare_account,
    unique,
    used_bytes,
    users_of,
)
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.pairs import paired
from tests.support.storlets import LANGUAGES, PLACEMENTS, Tool, Toolbox


@pytest.fixture(scope="session")
def owner(users: dict[str, Client]) -> Client:
    """``test:tester``, the owner of the account that most tests use, with storlets enabled."""
    client = users["test:tester"]
    prepare_account(client)
    return client


@pytest.fixture(scope="session")
def other_owner(other_cluster: Cluster) -> Client:
    """``test:tester`` on ``other_cluster``, with storlets enabled and a container ``c``."""
    client = users_of(other_cluster.description)["test:tester"]
    prepare_account(client)
    assert client.put("c").status == 201
    return client


@pytest.fixture(scope="session")
def other_names(other_owner: Client, toolbox: Toolbox) -> dict[str, str]:
    """Name of the multitool on ``other_cluster`` in each language."""
    return {language: toolbox.upload(other_owner, language, "multitool") for language in LANGUAGES}


@pytest.fixture
def there(other_owner: Client, other_names: dict[str, str], language: str, crossed: str) -> Tool:
    """The multitool on ``other_cluster``, in both languages and placements, as ``tool``."""
    return Tool(other_owner, other_names[language], crossed)


@pytest.fixture(scope="session")
def storlet_names(owner: Client, toolbox: Toolbox) -> dict[str, str]:
    """Name of the multitool in each language."""
    return {language: toolbox.upload(owner, language, "multitool") for language in LANGUAGES}


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def crossed(request: pytest.FixtureRequest, language: str) -> str:
    """A placement for the language: a test has each placement once.

    A worker does not know where it runs, and a placement does not depend on the language.  So two
    of the four pairs are enough for a test.
    """
    return paired(request, LANGUAGES.index(language), PLACEMENTS)


@pytest.fixture
def tool(owner: Client, storlet_names: dict[str, str], language: str, crossed: str) -> Tool:
    """The multitool; a test that uses it runs for both languages and both placements, twice."""
    return Tool(owner, storlet_names[language], crossed)


@pytest.fixture
def each_tool(owner: Client, storlet_names: dict[str, str], language: str, placement: str) -> Tool:
    """The multitool; a test that uses it runs for each language in each placement."""
    return Tool(owner, storlet_names[language], placement)


@pytest.fixture
def either(owner: Client, storlet_names: dict[str, str], language: str) -> Tool:
    """The multitool of both languages, where the placement is given (PUT) or does not matter."""
    return Tool(owner, storlet_names[language])


@pytest.fixture
def anywhere(owner: Client, storlet_names: dict[str, str], placement: str) -> Tool:
    """The Python multitool in both placements, where the language does not matter."""
    return Tool(owner, storlet_names["python"], placement)


@pytest.fixture
def any_tool(owner: Client, storlet_names: dict[str, str]) -> Tool:
    """The Python multitool, where neither language nor placement matters."""
    return Tool(owner, storlet_names["python"])


@pytest.fixture
def container(owner: Client, cluster: Cluster) -> Iterator[str]:
    """A separate container."""
    yield from _container(owner, cluster)


def _container(owner: Client, cluster: Cluster) -> Iterator[str]:
    """A new container.  Its large objects are deleted afterwards; the rest takes less space than
    its deletion takes time, and ends with the cluster."""
    name = unique("c")
    assert owner.put(name).status == 201
    used = used_bytes(cluster.home)
    yield name
    # A listing takes 10 ms of processor time, and few of a thousand tests have large objects.
    if used_bytes(cluster.home) - used >= LARGE_BYTES:
        delete_large_objects(owner, name)


@pytest.fixture(scope="module")
def shared_container(owner: Client, cluster: Cluster) -> Iterator[str]:
    """A container for the objects :func:`plain` of a module."""
    yield from _container(owner, cluster)


@pytest.fixture
def plain(request: pytest.FixtureRequest, owner: Client) -> str:
    """A small object with metadata; its path.

    It is in ``container`` if the test uses that, too.  Most tests do not, and a container of
    their own would cost more processor time than the object: they have one for each module.  Other
    tests have other names there.
    """
    if "container" in request.fixturenames:
        path = f"{request.getfixturevalue('container')}/plain.txt"
    else:
        path = f"{request.getfixturevalue('shared_container')}/{unique('plain')}.txt"
    headers = {"Content-Type": "text/x-plain", "X-Object-Meta-Colour": "red"}
    assert owner.put(path, CONTENT, headers).status == 201
    return path


CONTENT = b"0123456789 the content of a plain object\n"


@pytest.fixture
def content() -> bytes:
    """The content of :func:`plain`."""
    return CONTENT


@pytest.fixture
def shared_storlets(owner: Client) -> Iterator[None]:
    """tester3 of the same account and tester2 of another may read the storlets (not the data)."""
    assert owner.post("storlet", {"X-Container-Read": "test:tester3,test2:tester2"}).status == 204
    yield
    assert owner.post("storlet", {"X-Remove-Container-Read": "x"}).status == 204
