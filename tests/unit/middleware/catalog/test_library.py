"""The system library: its names, its versions, the operator's folders, and what it never does."""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storlet_middleware.catalog import library
from storlet_middleware.catalog.library import LibraryFetcher, library_of
from storlet_middleware.config import ConfigError, parse
from storlet_middleware.engine.code_cache import CodeCache
from storlet_middleware.engine.storlet_version import CodeFile, StorletVersion
from storlet_middleware.errors import InternalError, StorletNotFound
from tests.unit.middleware.logger import Logger
from tests.unit.middleware.support import ACCOUNT, FakeSwift, Node, Proxy, make_config

TOML = 'name = "{name}"\nversion = "2.1"\nlanguage = "python"\nmain = "own.Own"\n'


class NoOthers:
    """A fetcher of a node that must not query Swift."""

    def fetch(self, account: str, file: CodeFile) -> Iterator[bytes]:
        raise AssertionError(file)


def operators(folder: Path, name: str = "own", more: str = "") -> Path:
    """A folder of the operator with one storlet."""
    place = folder / name
    (place / "src").mkdir(parents=True)
    (place / "src/own.py").write_text("class Own: pass\n")
    (place / "storlet.toml").write_text(TOML.format(name=name) + more)
    return folder


def faults(tmp_path: Path, **options: str) -> str:
    with pytest.raises(ConfigError) as caught:
        library_of(make_config(tmp_path, **options))
    return str(caught.value)


def test_the_package_has_storlets(tmp_path: Path) -> None:
    own = library_of(make_config(tmp_path))
    assert {"std:grep", "std:nop", "std:sum", "std:wordcount"} <= set(own.names)
    row = own.published()["std:grep"]
    assert (row["language"], row["parameters"]["pattern"]["required"]) == ("python", True)
    json.dumps(own.published())


def test_equal_files_give_equal_hashes(tmp_path: Path) -> None:
    one = library_of(make_config(tmp_path)).member("std:grep")
    library._own_members.cache_clear()
    other = library_of(make_config(tmp_path)).member("std:grep")
    assert one is not other
    assert one.packed == other.packed
    assert one.version_for(ACCOUNT).key != one.version_for("AUTH_other").key


def test_the_hash_changes_with_the_code(tmp_path: Path) -> None:
    folder = operators(tmp_path / "library")
    config = make_config(tmp_path, library__folders=str(folder))
    old = library_of(config)
    version = StorletVersion.from_text(old.member("std:own").version_for(ACCOUNT).for_node)
    assert old.has(version)
    (folder / "own/src/own.py").write_text("class Own: x = 1\n")
    assert not library_of(config).has(version)


def test_the_code_comes_from_the_installed_files(tmp_path: Path) -> None:
    own = library_of(make_config(tmp_path))
    version = own.member("std:grep").version_for(ACCOUNT)
    CodeCache(1 << 20, Logger()).ensure(str(tmp_path), version, LibraryFetcher(own, NoOthers()))
    code = (tmp_path / version.key / "grep.py").read_bytes()
    assert code == (library.FOLDER / "grep/src/grep.py").read_bytes()


def test_a_fetch_of_another_version_fails(tmp_path: Path) -> None:
    own = library_of(make_config(tmp_path))
    file = dataclasses.replace(own.member("std:grep").file, etag="0" * 32)
    with pytest.raises(InternalError, match="std:grep: this node has another version"):
        list(LibraryFetcher(own, NoOthers()).fetch(ACCOUNT, file))


def test_an_object_of_an_account_is_never_taken_for_the_library(tmp_path: Path) -> None:
    own = library_of(make_config(tmp_path))
    file = dataclasses.replace(own.member("std:grep").file, container="storlet")
    with pytest.raises(AssertionError):
        list(LibraryFetcher(own, NoOthers()).fetch(ACCOUNT, file))


def test_the_operators_folders_add_storlets(tmp_path: Path) -> None:
    folder = operators(tmp_path / "library")
    own = library_of(make_config(tmp_path, library__folders=str(folder)))
    assert own.published()["std:own"]["version"] == "2.1"


def test_storlets_of_a_folder_share_modules(tmp_path: Path) -> None:
    folder = operators(tmp_path / "library")
    (folder / "shared").mkdir()
    (folder / "shared/colours.py").write_text("RED = 1\n")
    (folder / "own/src/colours.py").symlink_to("../../shared/colours.py")
    own = library_of(make_config(tmp_path, library__folders=str(folder)))
    with zipfile.ZipFile(io.BytesIO(own.member("std:own").packed)) as packed:
        assert packed.read("code/colours.py") == b"RED = 1\n"


def test_a_storlet_that_is_switched_off_is_not_found_and_not_listed(tmp_path: Path) -> None:
    own = library_of(make_config(tmp_path, library__disabled="std:grep"))
    assert "std:grep" not in own.published()
    with pytest.raises(StorletNotFound, match="the operator of this cluster has switched it off"):
        own.member("std:grep")


def test_a_storlet_whose_language_the_cluster_lacks_is_not_found(tmp_path: Path) -> None:
    own = library_of(make_config(tmp_path, storlet__languages="java:17"))
    with pytest.raises(StorletNotFound, match="std:grep: language: 'python': this cluster has"):
        own.member("std:grep")


def test_an_unknown_name_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(StorletNotFound, match=r"no storlet std:gerp; did you mean std:grep\?"):
        library_of(make_config(tmp_path)).member("std:gerp")


def test_every_fault_of_the_options_is_reported_at_once(tmp_path: Path) -> None:
    folder = operators(tmp_path / "one", "grep")
    operators(tmp_path / "one", "own", 'colour = "red"\n')
    operators(tmp_path / "one", "built", 'requirements = ["numpy"]\n')
    (tmp_path / "one/empty").mkdir()
    text = faults(
        tmp_path,
        library__folders=f"{folder}, {tmp_path}/none",
        library__disabled="std:gerp",
    )
    assert "the library has a storlet std:grep already" in text
    assert "own/storlet.toml: colour: unknown key" in text
    assert "built/storlet.toml: requirements: requires a build" in text
    assert "empty/storlet.toml: [Errno 2]" in text
    assert f"folders = {tmp_path}/none: No such file" in text
    assert "disabled = std:gerp: the library has no such storlet; did you mean std:grep?" in text


def test_the_library_is_of_class_user(tmp_path: Path) -> None:
    text = f"[class:admin]\naccounts = {ACCOUNT}\n"
    assert parse(text).class_of(ACCOUNT, "std:grep").name == "user"
    with pytest.raises(ConfigError, match="std:grep: a storlet of the library is of class user"):
        parse(f"[class:admin]\nstorlets = {ACCOUNT}/std:grep\n")


# --- at a proxy -----------------------------------------------------------------------------------


def test_every_reader_of_an_object_may_run_the_library_on_it(
    proxy: Proxy, swift: FakeSwift, node: Node
) -> None:
    swift.put("c", "o", b"hello")
    swift.containers["c"].read = "test2:reader"
    answer = proxy.call("GET", "c/o", {"X-Run-Storlet": "std:nop"}, user="test2:reader")
    assert (answer.status, answer.data) == (200, b"HELLO")  # the worker of these tests
    assert not [seen for seen in swift.seen if "/storlet/" in seen.path]


def test_the_library_gives_no_access_to_objects(proxy: Proxy, swift: FakeSwift) -> None:
    swift.put("c", "o", b"hello")
    answer = proxy.call("GET", "c/o", {"X-Run-Storlet": "std:nop"}, user="test2:reader")
    assert answer.status == 403


def test_parameters_are_checked_all_at_once(proxy: Proxy, swift: FakeSwift) -> None:
    swift.put("c", "o", b"hello")
    answer = proxy.call("GET", "c/o?the-pattern=x&count=many", {"X-Run-Storlet": "std:grep"})
    assert (answer.status, answer.error) == (400, "bad_request")
    assert b"did you mean pattern?" in answer.data
    assert b"parameter 'count': 'many': want true or false" in answer.data
    assert b"parameter 'pattern': missing" in answer.data


@pytest.mark.parametrize("name", ["std:grep", "std:grep.py", "std:x.storlet"])
def test_no_storlet_of_an_account_has_a_name_of_the_library(
    proxy: Proxy, swift: FakeSwift, name: str
) -> None:
    headers = {
        "X-Object-Meta-Storlet-Language": "python",
        "X-Object-Meta-Storlet-Interface-Version": "1.0",
        "X-Object-Meta-Storlet-Object-Metadata": "no",
        "X-Object-Meta-Storlet-Main": "grep.Grep",
    }
    answer = proxy.call("PUT", f"storlet/{name}", headers, body=b"class Grep: pass")
    assert (answer.status, answer.error.partition(".")[0]) == (400, "registration")
    assert b"std:" in answer.data
    assert not swift.requests("PUT", name)


def test_a_grant_may_name_a_storlet_of_the_library(proxy: Proxy, swift: FakeSwift) -> None:
    swift.put("c", "o", b"hello")
    grant = {"X-Storlet-Container-Read": "test2:reader", "X-Storlet-Name": "std:nop"}
    answer = proxy.call("POST", "c", grant)
    assert (answer.status, answer.headers.get("X-Storlet-Warning")) == (204, None)
    run = {"X-Run-Storlet": "std:nop"}
    assert proxy.call("GET", "c/o", run, user="test2:reader").data == b"HELLO"
    assert proxy.call("GET", "c/o", user="test2:reader").status == 403
    other = {"X-Run-Storlet": "std:wordcount"}
    assert proxy.call("GET", "c/o", other, user="test2:reader").status == 403
    answer = proxy.call("POST", "c", {**grant, "X-Storlet-Name": "std:nob"})
    assert "did you mean std:nop?" in answer.headers["X-Storlet-Warning"]
