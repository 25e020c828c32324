"""The configuration files of a cluster."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from storlet_middleware import config
from storlet_middleware.aio import configs, rings
from storlet_middleware.aio.configs import Choices
from storlet_middleware.aio.home import Home, open_home
from storlet_middleware.aio.progress import AioError

PIPELINE = (
    "catch_errors gatekeeper healthcheck proxy-logging cache listing_formats bulk tempurl ratelimit storlets-s3 s3api tempauth staticweb "
    "storlets copy container-quotas account-quotas slo dlo versioned_writes symlink proxy-logging proxy-server"
)


@pytest.fixture
def place(tmp_path: Path) -> Home:
    return open_home({"STORLETS_HOME": str(tmp_path / "h"), "STORLETS_PORT": "0"})


@pytest.fixture
def no_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files stay the test's: there may be no user ``swift`` yet."""
    monkeypatch.setattr(configs.shutil, "chown", lambda *_: None)


def test_the_proxys_pipeline_is_the_usual_one(place: Home) -> None:
    assert configs.proxy_conf(place, Choices())["pipeline:main"]["pipeline"] == PIPELINE


def test_plain_swift_has_no_storlets(place: Home) -> None:
    choices = Choices(filter=False)
    for sections in (configs.proxy_conf(place, choices), configs.object_conf(place, choices, 1)):
        assert "storlets" not in str(sections["pipeline:main"]["pipeline"])


@pytest.mark.parametrize("encryption", [True, False])
def test_encryption_is_switched_on_everywhere_or_nowhere(place: Home, encryption: bool) -> None:
    choices = Choices(encryption=encryption)
    for sections in (
        configs.proxy_conf(place, choices),
        configs.internal_client_conf(place, choices),
    ):
        pipeline = str(sections["pipeline:main"]["pipeline"])
        assert (" keymaster encryption proxy-" in pipeline) is encryption
        assert ("filter:keymaster" in sections) is encryption


def test_every_filter_of_a_pipeline_has_a_section(place: Home) -> None:
    choices = Choices(encryption=True)
    made = [
        configs.proxy_conf(place, choices),
        configs.internal_client_conf(place, choices),
        configs.account_conf(place, choices),
        configs.container_conf(place, choices),
        configs.object_conf(place, choices, 1),
    ]
    for sections in made:
        *filters, app = str(sections["pipeline:main"]["pipeline"]).split()
        assert f"app:{app}" in sections
        assert [name for name in filters if f"filter:{name}" not in sections] == []


def test_the_product_accepts_the_storlet_conf(place: Home, no_owner: None) -> None:
    configs.write_all(place, Choices(image="storlets/sandbox:abc"))
    loaded = config.load(str(place.real_conf / "storlet.conf"))
    assert loaded.sandbox.image == "storlets/sandbox:abc"
    assert loaded.sandbox.node_id == place.node_id


def test_overrides_win(place: Home, no_owner: None) -> None:
    place.real_conf.mkdir()
    (place.real_conf / "overrides.conf").write_text(
        "[storlet.conf:limits]\npids = 33\n[proxy-server.conf:DEFAULT]\nworkers = 2\n"
    )
    configs.write_all(place, Choices())
    assert config.load(str(place.real_conf / "storlet.conf")).limits.pids == 33
    written = configparser.RawConfigParser()
    written.read(place.real_conf / "proxy-server.conf")
    assert written["DEFAULT"]["workers"] == "2"


@pytest.mark.parametrize(
    "text", ["[limits]\npids = 3\n", "[nothing.conf:a]\nb = c\n", "pids = 3\n"]
)
def test_overrides_that_concern_no_file_are_refused(place: Home, no_owner: None, text: str) -> None:
    place.real_conf.mkdir()
    (place.real_conf / "overrides.conf").write_text(text)
    with pytest.raises(AioError, match=r"overrides\.conf"):
        configs.write_all(place, Choices())


def test_files_with_keys_are_not_world_readable(place: Home, no_owner: None) -> None:
    configs.write_all(place, Choices())
    assert (place.real_conf / "proxy-server.conf").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("STORLETS_ENCRYPTION", "maybe"),
        ("STORLETS_FILTER", "maybe"),
        ("STORLETS_WORKERS", "maybe"),
        ("STORLETS_DATABASE_REPLICAS", "maybe"),
        ("STORLETS_DATABASE_REPLICAS", "0"),
        ("STORLETS_DATABASE_REPLICAS", "5"),
        ("STORLETS_OBJECT_REPLICAS", "maybe"),
        ("STORLETS_OBJECT_REPLICAS", "0"),
        ("STORLETS_OBJECT_REPLICAS", "5"),
        ("STORLETS_SELF_TESTS", "usr"),
    ],
)
def test_an_unknown_choice_is_refused(variable: str, value: str) -> None:
    with pytest.raises(AioError, match=variable):
        configs.choices_from({variable: value}, "image", "unix:///x")


@pytest.mark.parametrize(
    ("variables", "databases", "objects"),
    [
        ({}, 3, 3),
        ({"STORLETS_DATABASE_REPLICAS": "", "STORLETS_OBJECT_REPLICAS": ""}, 3, 3),
        ({"STORLETS_DATABASE_REPLICAS": "1"}, 1, 3),
        ({"STORLETS_OBJECT_REPLICAS": "2"}, 3, 2),
    ],
)
def test_there_are_three_replicas_or_the_chosen_number(
    variables: dict[str, str], databases: int, objects: int
) -> None:
    chosen = configs.choices_from(variables, "image", "unix:///x").replicas
    assert chosen == rings.Replicas(databases=databases, objects=objects)


def test_the_sample_files_have_the_sections_that_the_cluster_uses(place: Home) -> None:
    etc = Path(__file__).resolve().parents[3] / "etc"
    for role, sections in (
        ("proxy", configs.proxy_conf(place, Choices())),
        ("object", configs.object_conf(place, Choices(), 1)),
    ):
        sample = configparser.RawConfigParser()
        sample.read(etc / f"{role}-server.conf-sample")
        ours = sections["filter:storlets"]
        assert sample["filter:storlets"]["use"] == ours["use"]
        assert sample["filter:storlets"]["role"] == ours["role"] == role
        if role == "proxy":
            assert dict(sample["filter:storlets-s3"]) == sections["filter:storlets-s3"]


def test_the_sample_of_the_internal_client_is_the_clusters(place: Home) -> None:
    sample = configparser.RawConfigParser()
    sample.read(Path(__file__).resolve().parents[3] / "etc/internal-client.conf-sample")
    ours = configs.internal_client_conf(place, Choices())
    assert sample["pipeline:main"]["pipeline"] == ours["pipeline:main"]["pipeline"]
