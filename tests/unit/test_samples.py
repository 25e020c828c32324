"""The storlets that come with the product: every manifest is sound, and every Python one does what
its folder says."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from storlet_daemon.author import offer

ROOT = Path(__file__).resolve().parents[2] / "storlets"
#: The system library; ``tests/library/test_library_storlets.py`` tests it.
#: Folders of projects, which have manifests of another form.
PROJECTS = (ROOT / "std", ROOT / "native")
FOLDERS = sorted(path.parent for path in ROOT.glob("*/manifest.json"))
NEEDED = {"name", "language", "main", "file", "dependencies", "parameters", "input", "summary"}
OPTIONAL = {"expected", "expected_metadata", "expected_error", "language_version"}
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class FakeInput(io.BytesIO):
    """An in_file: bytes and metadata; iterates by lines as BytesIO does."""

    def __init__(self, data: bytes, metadata: dict[str, str] | None = None) -> None:
        super().__init__(data)
        self._metadata = metadata or {}

    def get_metadata(self) -> dict[str, str]:
        return dict(self._metadata)


class FakeOutput:
    """An out_file over a real file, so that a child process can write to its descriptor; metadata
    once, before the body."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)
        self.metadata: dict[str, Any] | None = None
        self._written = False

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        assert self.metadata is None, "metadata set twice"
        assert not self._written, "metadata set after the body"
        self.metadata = dict(metadata)

    def write(self, data: bytes | memoryview) -> int:
        self._written = True
        return self._file.write(data)

    def fileno(self) -> int:
        self._written = True
        return self._file.fileno()

    def content(self) -> bytes:
        self._file.seek(0)
        return self._file.read()

    def close(self) -> None:
        self._file.close()


class FakeLogger:
    """Keeps what the storlet logs."""

    def __init__(self) -> None:
        self.text = ""

    def _emit(self, message: str, *args: object) -> None:
        self.text += (message % args if args else message) + "\n"

    debug = info = warn = warning = error = _emit


def manifest_of(folder: Path) -> dict[str, Any]:
    manifest = json.loads((folder / "manifest.json").read_text())
    assert isinstance(manifest, dict)
    return manifest


def module_of(folder: Path) -> ModuleType:
    source = folder / manifest_of(folder)["file"]
    spec = importlib.util.spec_from_file_location(f"sample_{folder.name}", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    offer.offer()
    try:
        spec.loader.exec_module(module)
    finally:
        for name in offer.NAMES:
            sys.modules.pop(name, None)
    return module


class Run:
    """One run of a sample over bytes in memory."""

    def __init__(self, name: str, tmp_path: Path) -> None:
        self.folder = ROOT / name
        self.tmp_path = tmp_path
        self.logger = FakeLogger()
        self.output = FakeOutput(tmp_path / "output")

    def __call__(
        self,
        inputs: list[bytes],
        parameters: dict[str, str] | None = None,
        metadata: dict[str, str] | None = None,
    ) -> bytes:
        class_name = manifest_of(self.folder)["main"].split(".", 1)[1]
        storlet = getattr(module_of(self.folder), class_name)(self.logger)
        files = [FakeInput(data, metadata) for data in inputs]
        storlet(
            files, [self.output], (parameters or {}) | {"storlet_execution_path": str(self.folder)}
        )
        return self.output.content()


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    """The sample that the test module's parameter names (indirect)."""
    made = Run(request.param, tmp_path)
    yield made
    made.output.close()


def python_samples() -> list[Path]:
    return [folder for folder in FOLDERS if manifest_of(folder)["language"] == "python"]


def sample(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("run", [name], indirect=True, ids=[name])


# --- every folder ---------------------------------------------------------------------------------


def test_every_folder_has_a_manifest_and_a_readme() -> None:
    folders = [
        path
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith((".", "_")) and path not in PROJECTS
    ]
    lacking = [
        f"{p.name}/{n}"
        for p in folders
        for n in ("manifest.json", "README.rst")
        if not (p / n).is_file()
    ]
    assert lacking == []
    assert FOLDERS


def test_no_two_samples_share_an_object_name() -> None:
    names = [manifest_of(folder)["name"] for folder in FOLDERS]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_manifest_is_sound(folder: Path) -> None:
    manifest = manifest_of(folder)
    assert set(manifest) >= NEEDED
    assert set(manifest) - NEEDED - OPTIONAL == set()
    assert manifest["language"] in ("python", "java", "native")
    assert ("expected" in manifest) != ("expected_error" in manifest)
    inputs = manifest["input"] if isinstance(manifest["input"], list) else [manifest["input"]]
    files = [*inputs, *([manifest["expected"]] if "expected" in manifest else [])]
    assert [name for name in files if not (folder / name).is_file()] == []
    for name in [
        manifest["name"],
        manifest["file"],
        *files,
        *(d["file"] for d in manifest["dependencies"]),
    ]:
        assert SAFE_NAME.fullmatch(name), name
    for dependency in manifest["dependencies"]:
        assert set(dependency) <= {"file", "permissions"}
        assert int(dependency.get("permissions", "0600"), 8) & 0o600 == 0o600
    assert all(
        isinstance(v, str)
        for v in [*manifest["parameters"].values(), *manifest.get("expected_metadata", {}).values()]
    )
    assert manifest["summary"].endswith(".")
    assert len(manifest["summary"]) <= 100


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_names_follow_the_rules_of_registration(folder: Path) -> None:
    manifest = manifest_of(folder)
    if manifest["language"] == "python":
        assert manifest["name"] == manifest["file"]
        assert manifest["main"].startswith(manifest["name"].removesuffix(".py") + ".")
        assert manifest["main"].count(".") == 1
        assert (folder / manifest["file"]).is_file()
    elif manifest["language"] == "native":
        assert manifest["main"] == manifest["name"]
        assert (folder / manifest["file"]).is_file()
    else:
        assert re.fullmatch(r"[^/]+-[^/]+\.jar", manifest["name"])


@pytest.mark.parametrize("folder", python_samples(), ids=lambda path: path.name)
def test_a_python_sample_gives_the_expected_answer(folder: Path, tmp_path: Path) -> None:
    manifest = manifest_of(folder)
    names = manifest["input"] if isinstance(manifest["input"], list) else [manifest["input"]]
    run = Run(folder.name, tmp_path)
    inputs = [(folder / name).read_bytes() for name in names]
    with contextlib.closing(run.output) as output:
        if "expected_error" in manifest:
            with pytest.raises(RuntimeError):
                run(inputs, manifest["parameters"])
            return
        assert run(inputs, manifest["parameters"]) == (folder / manifest["expected"]).read_bytes()
        metadata = output.metadata or {}
        assert {name: metadata.get(name) for name in manifest["expected_metadata"]} == manifest[
            "expected_metadata"
        ]


# --- one by one -----------------------------------------------------------------------------------

ROWS = b"id,city\n1,Bern\n2,Basel\n3,Chur\n4,Davos\n"


@sample("csv_filter")
def test_csv_filter_without_parameters_changes_nothing(run: Run) -> None:
    assert run([ROWS]) == ROWS


@sample("csv_filter")
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("id>=3", b"34"),
        ("id<2", b"1"),
        ("id!=2;city~a", b"4"),
        ("city=Chur", b"3"),
        ("city>1", b""),
        ("city~", b"1234"),
    ],
)
def test_csv_filter_conditions(run: Run, where: str, ids: bytes) -> None:
    lines = run([ROWS], {"where": where, "columns": "id"}).split()
    assert b"".join(lines[1:]) == ids


@sample("csv_filter")
@pytest.mark.parametrize(
    "parameters",
    [
        {"columns": "nosuch"},
        {"where": "nosuch=1"},
        {"where": "id"},
        {"where": "id<abc"},
        {"partition": "last"},
        {"partition": "later"},
    ],
)
def test_csv_filter_refuses_invalid_parameters(run: Run, parameters: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        run([ROWS], parameters)


@sample("csv_filter")
def test_csv_filter_of_an_empty_object_is_empty(run: Run) -> None:
    assert run([b""]) == b""


@sample("csv_filter")
def test_csv_filter_keeps_bytes_that_are_not_utf8(run: Run) -> None:
    data = b"\xef\xbb\xbfa,b\n\xff,2\n"
    assert run([data], {"columns": "a"}) == b"a\n\xff\n"


@pytest.mark.parametrize("cut", range(1, len(ROWS)))
def test_csv_filter_partitions_return_each_line_once_for_any_cut(cut: int, tmp_path: Path) -> None:
    first = Run("csv_filter", tmp_path)
    head = first([ROWS], {"partition": "first", "partition_bytes": str(cut)})
    (tmp_path / "later").mkdir()
    later = Run("csv_filter", tmp_path / "later")
    tail = later(
        [ROWS[cut:]],
        {"partition": "later", "partition_bytes": str(len(ROWS) - cut), "header": "id,city"},
    )
    assert head + tail == ROWS
    first.output.close()
    later.output.close()


@sample("deidentify")
def test_deidentify_never_outputs_a_hidden_value(run: Run) -> None:
    data = b"id,name\n7,Secret\n8,Secret\n"
    result = run([data], {"hash": "name", "secret": "s"})
    rows = [line.split(b",") for line in result.split()]
    assert b"Secret" not in result
    assert rows[1][1] == rows[2][1] != b""


@sample("deidentify")
@pytest.mark.parametrize(
    ("data", "parameters"),
    [
        (b"id,name\n1,x\n", {"drop": "nam"}),
        (b"id,name\n1,x\n", {"hash": "name"}),
        (b"id,name\n1,x\n", {}),
        (b"id,name\n1,x,y\n", {"drop": "name"}),
        (b"id,name\n1\n", {"drop": "name"}),
        (b"", {"drop": "name"}),
        (b"id,name\n1,x\n", {"mask": "name", "keep": "-1"}),
    ],
)
def test_deidentify_fails_rather_than_guess(
    run: Run, data: bytes, parameters: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match=r"."):
        run([data], parameters)


@sample("deidentify")
def test_deidentify_masks_short_values_completely(run: Run) -> None:
    assert run([b"n\n12\n123\n"], {"mask": "n", "keep": "2"}) == b"n\n**\n*23\n"


@sample("deidentify")
def test_deidentify_treats_every_column_of_the_name(run: Run) -> None:
    assert run([b"a,b,a\n1,2,3\n"], {"drop": "a"}) == b"b\n2\n"


@sample("grep")
@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"pattern": "b$"}, b"ab\r\n"),
        ({"pattern": "A", "ignore_case": "true"}, b"ab\r\na.c\n"),
        ({"pattern": ".", "fixed": "true"}, b"a.c\n"),
        ({"pattern": "a", "invert": "true"}, b"rest"),
        ({"pattern": "", "fixed": "true"}, ValueError),
        ({"pattern": "a", "max_count": "1"}, b"ab\r\n"),
        ({"pattern": "a", "invert": "yes"}, ValueError),
        ({"pattern": "("}, re.error),
    ],
)
def test_grep(run: Run, parameters: dict[str, str], expected: bytes | type[Exception]) -> None:
    data = b"ab\r\na.c\nrest"
    if isinstance(expected, bytes):
        assert run([data], parameters) == expected
    else:
        with pytest.raises(expected):
            run([data], parameters)


@sample("word_count")
def test_word_count_does_not_split_a_word_at_a_chunk(run: Run) -> None:
    data = b"x " * 131_070 + b"word-across-the-chunk end\n"
    lines = run([data], {"top": "5"}).decode().split("\n")
    assert lines[1].split() == ["131072", "words"]
    assert [line.split() for line in lines[3:6]] == [
        ["131070", "x"],
        ["1", "end"],
        ["1", "word-across-the-chunk"],
    ]


@sample("word_count")
def test_word_count_refuses_binary_input(run: Run) -> None:
    with pytest.raises(ValueError, match="not text"):
        run([b"\x01" * 1_000_000])


@sample("word_count")
def test_word_count_of_nothing(run: Run) -> None:
    assert [line.split()[0] for line in run([b""]).decode().splitlines()] == ["0", "0", "0"]


@sample("split_lines")
def test_split_lines_deals_lines_to_all_outputs(run: Run) -> None:
    outputs = [FakeOutput(run.tmp_path / f"part-{number}") for number in range(3)]
    storlet = module_of(run.folder).SplitLines(run.logger)
    data = b"head\n" + b"".join(b"%d\n" % number for number in range(7))
    storlet([FakeInput(data)], outputs, {"header": "true"})
    assert [each.content() for each in outputs] == [
        b"head\n0\n3\n6\n",
        b"head\n1\n4\n",
        b"head\n2\n5\n",
    ]
    assert [each.metadata["Part"] for each in outputs if each.metadata] == ["0", "1", "2"]
    for each in outputs:
        each.close()


@sample("tiles")
def test_tiles_are_the_picture(run: Run) -> None:
    outputs = [FakeOutput(run.tmp_path / f"tile-{number}") for number in range(7)]
    module = module_of(run.folder)
    picture = (run.folder / "input.png").read_bytes()
    module.Tiles(run.logger)([FakeInput(picture)], outputs, {"columns": "3", "size": "48"})

    def rows(content: bytes) -> list[bytes]:
        return list(module.Picture(io.BytesIO(content)).rows())

    thumbnail, *tiles = [each.content() for each in outputs]
    assert thumbnail == (run.folder / "expected.png").read_bytes()
    upper, lower = (
        [b"".join(parts) for parts in zip(*map(rows, line), strict=True)]
        for line in (tiles[:3], tiles[3:])
    )
    assert upper + lower == rows(picture)
    assert [each.metadata["Width"] for each in outputs if each.metadata] == ["48"] + ["80"] * 6
    for each in outputs:
        each.close()


@sample("tiles")
@pytest.mark.parametrize(
    ("start", "end", "text"),
    [(0, 100, "ends early"), (1, None, "no PNG"), (0, -20, "ends early"), (0, 20, "ends early")],
)
def test_tiles_refuses_a_picture_that_is_none(
    run: Run, start: int, end: int | None, text: str
) -> None:
    picture = (run.folder / "input.png").read_bytes()
    with pytest.raises(ValueError, match=text):
        run([picture[start:end]])


@sample("tiles")
def test_tiles_refuses_a_damaged_picture(run: Run) -> None:
    picture = bytearray((run.folder / "input.png").read_bytes())
    picture[60] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        run([bytes(picture)])


@sample("gzip_compress")
def test_gzip_compress_of_much_is_read_back(run: Run) -> None:
    data = bytes(range(256)) * 4096
    assert gzip.decompress(run([data])) == data


@sample("gzip_compress")
@pytest.mark.parametrize("level", ["0", "10", "x"])
def test_gzip_compress_refuses_a_bad_level(run: Run, level: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        run([b"x"], {"level": level})


@sample("multi_input")
def test_multi_input_shows_the_metadata_of_each(run: Run) -> None:
    assert run([b"a", b"b"], {}, {"Colour": "red"}) == b"ab"
    assert run.output.metadata == {"Inputs": "2", "Input-1-Colour": "red", "Input-2-Colour": "red"}


@sample("metadata")
def test_metadata_sets_keeps_and_removes_names(run: Run) -> None:
    parameters = {"set-New": "1", "remove": "Old, Other", "Content-Type": "a/b"}
    assert run([b"body"], parameters, {"Old": "x", "Kept": "y"}) == b"body"
    assert run.output.metadata == {
        "Kept": "y",
        "Old": "",
        "Other": "",
        "New": "1",
        "Content-Type": "a/b",
    }


@sample("identity")
def test_identity_copies_more_than_a_buffer(run: Run) -> None:
    data = bytes(range(251)) * 5000
    assert run([data], None, {"Colour": "red"}) == data
    assert run.output.metadata == {"Colour": "red"}


@sample("exec_dependency")
def test_exec_dependency_streams_more_than_a_pipe_holds(run: Run) -> None:
    assert run([b"ab\n" * 1_000_000]) == b"no\n" * 1_000_000


def test_exec_dependency_fails_if_the_program_fails(tmp_path: Path) -> None:
    (tmp_path / "rot13.sh").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "rot13.sh").chmod(0o755)
    storlet = module_of(ROOT / "exec_dependency").ExecDependency(FakeLogger())
    output = FakeOutput(tmp_path / "output")
    with pytest.raises(RuntimeError, match="code 3"):
        storlet([FakeInput(b"x" * 1_000_000)], [output], {"storlet_execution_path": str(tmp_path)})
    output.close()


@sample("broken")
def test_broken_can_write_before_it_fails(run: Run) -> None:
    with pytest.raises(RuntimeError):
        run([b""], {"after": "10"})
    assert run.output.content() == b"x" * 10
    assert "about to fail" in run.logger.text
