"""The sandbox image: what it is built from, and when it is built again."""

from __future__ import annotations

import io
import stat
import tarfile
from pathlib import Path
from typing import Any, cast

import pytest

from storlet_middleware.aio import image
from storlet_middleware.aio.docker_api import DockerApi
from storlet_middleware.aio.progress import AioError


class FakeApi:
    """The images of an engine; records what is built."""

    def __init__(self, *images: str, can_pull: bool = False) -> None:
        self.images = dict.fromkeys(images, "sha256:1")
        self.can_pull = can_pull
        self.built: list[str] = []
        self.arguments: dict[str, str] = {}
        self.removed: list[str] = []

    def image_id(self, name: str) -> str | None:
        return self.images.get(name)

    def pull(self, *_: str, seconds: float) -> bool:
        assert seconds > 0
        return self.can_pull

    def build(self, context: Any, name: str, arguments: dict[str, str]) -> None:
        self.context = b"".join(context)
        self.built.append(name)
        self.images[name] = "sha256:2"
        self.arguments = arguments

    def tag(self, name: str, repository: str, tag: str) -> None:
        self.images[f"{repository}:{tag}"] = self.images[name]

    def tags(self, repository: str) -> list[str]:
        return [name for name in self.images if name.startswith(f"{repository}:")]

    def untag(self, name: str) -> None:
        self.removed.append(name)


def api(fake: FakeApi) -> DockerApi:
    return cast("DockerApi", fake)


DEBIAN = ":".join(image.DEBIAN)


@pytest.mark.parametrize(
    ("choice", "images", "can_pull", "expected"),
    [
        ("", [], False, True),
        ("", [], True, False),
        ("", [DEBIAN], False, False),
        ("debootstrap", [DEBIAN], True, True),
        ("registry", [], False, False),
        ("rootfs", [], False, False),
        ("debootstrap", [image.base_tag()], False, False),
    ],
)
def test_debootstrap_makes_the_base_without_a_registry_or_by_choice(
    monkeypatch: pytest.MonkeyPatch, choice: str, images: list[str], *, can_pull: bool,
    expected: bool,
) -> None:  # fmt: skip
    monkeypatch.setenv("STORLETS_BASE", choice)
    assert image.wants_debootstrap(api(FakeApi(*images, can_pull=can_pull))) is expected


def test_an_unknown_way_to_make_the_base_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORLETS_BASE", "debootsrap")
    with pytest.raises(AioError, match="want debootstrap, registry or rootfs"):
        image.wants_debootstrap(api(FakeApi()))


def test_an_image_is_built_once_and_is_always_the_latest(tmp_path: Path) -> None:
    (tmp_path / "storlet-api.jar").touch()
    fake = FakeApi()
    plain = image.build(api(fake), {})
    assert image.build(api(fake), {}) == plain
    with_java = image.build(api(fake), {"java": tmp_path})
    assert fake.built == [plain, with_java]
    assert fake.images[f"{image.NAME}:latest"]
    assert fake.arguments == {"BASE": image.base_tag(), "KEY": with_java.partition(":")[2]}


@pytest.fixture
def cobol(tmp_path: Path) -> Path:
    """The built files of a made-up language, and a sample."""
    for name in ("runtime.so", "make-archive.sh", "samples/payroll.cob"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def names_in_context(languages: dict[str, Path]) -> list[str]:
    fake = FakeApi()
    image.build(api(fake), languages)
    with tarfile.open(fileobj=io.BytesIO(fake.context)) as tar:
        return tar.getnames()


def test_the_context_has_the_daemon_and_the_parts_of_each_language(cobol: Path) -> None:
    names = names_in_context({"cobol": cobol})
    assert {"Dockerfile", "lib/python/storlet_daemon/supervisor.py"} <= set(names)
    parts = [name for name in names if name.startswith("lib/cobol/")]
    assert parts == ["lib/cobol/make-archive.sh", "lib/cobol/runtime.so"]


def test_sources_that_are_built_are_not_part_of_the_image(cobol: Path) -> None:
    names = names_in_context({"cobol": cobol})
    assert not [name for name in names if "/storlet_daemon/java/" in name]


def test_the_image_has_another_name_with_the_parts_of_another_language(cobol: Path) -> None:
    names = {
        image.build(api(FakeApi()), parts) for parts in ({}, {"cobol": cobol}, {"algol": cobol})
    }
    assert len(names) == 3


def test_the_larger_image_is_the_other_one_with_its_packages(tmp_path: Path) -> None:
    (tmp_path / "duckdb").mkdir()
    (tmp_path / "duckdb/__init__.py").touch()
    fake = FakeApi(f"{image.NAME}:1")
    made = image.build_data(api(fake), f"{image.NAME}:1", tmp_path)
    assert image.build_data(api(fake), f"{image.NAME}:1", tmp_path) == made
    assert image.build_data(api(fake), f"{image.NAME}:2", tmp_path) != made
    assert len(fake.built) == 2
    assert fake.images[f"{image.DATA}:latest"]
    assert fake.arguments["BASE"] == f"{image.NAME}:2"
    with tarfile.open(fileobj=io.BytesIO(fake.context)) as tar:
        assert {"Dockerfile", "python/duckdb/__init__.py"} <= set(tar.getnames())


def test_only_the_newest_images_are_kept_and_never_the_current_one_removed() -> None:
    old = [f"{image.NAME}:{number}" for number in range(image.KEEP_IMAGES + 3)]
    current = f"{image.NAME}:current"
    fake = FakeApi(*old, current, f"{image.NAME}:latest", image.base_tag())
    image._remove_old(api(fake), current)
    assert fake.removed == old[image.KEEP_IMAGES :]


@pytest.mark.parametrize(
    ("before", "after"), [(0o600, 0o644), (0o700, 0o755), (0o4711, 0o755), (0o666, 0o644)]
)
def test_entries_of_a_context_depend_on_neither_owner_nor_umask(before: int, after: int) -> None:
    entry = tarfile.TarInfo("name")
    entry.mode, entry.uid, entry.gid, entry.uname = before, 1000, 1000, "alice"
    image.anonymous(entry)
    assert (stat.S_IMODE(entry.mode), entry.uid, entry.gid) == (after, 0, 0)
    assert (entry.uname, entry.gname) == ("root", "root")


def test_the_output_of_a_command_is_whole_and_a_failure_shows_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    size = 2 * image.CHUNK + 1
    assert sum(map(len, image.output(["head", "-c", str(size), "/dev/zero"], log))) == size
    failing = image.output(["sh", "-c", "echo part; echo no mirror >&2; exit 5"], log)
    assert next(failing) == b"part\n"
    with pytest.raises(AioError, match=r"(?s)ended with 5.*no mirror"):
        list(failing)


def test_the_scratch_of_a_running_debootstrap_stays(cache_dir: Path) -> None:
    ours, other = image.scratch(), cache_dir / "scratch-1"
    ended = cache_dir / f"scratch-{1 << 30}"
    for path in (ours, other, ended):
        (path / "etc").mkdir(parents=True)
    image.remove_scratch()
    assert [path.name for path in cache_dir.iterdir()] == ["scratch-1"]
