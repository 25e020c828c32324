"""Projects with libraries, from source to a result: Python with pip, Java with a JDK and Maven."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from storlet_client.builder import bundler, project, template, wheels
from storlet_client.builder.jars import LOCK
from storlet_client.builder.project import ProjectError
from storlet_client.bundle import manifest
from storlet_client.cli.main import main
from storlet_client.login import Token
from storlet_client.storlets import Storlets
from tests.support.accounts import unique
from tests.support.cluster import Cluster
from tests.support.http import Client
from tests.support.local_node import one_node
from tests.support.waiting import retry_until

SAMPLES = Path(__file__).resolve().parents[2] / "storlets/native"
LIBRARY = "org.apache.commons:commons-csv:1.10.0"
PANDAS = """
import pandas


class Means:
    def __init__(self, logger):
        self.logger = logger

    def __call__(self, in_files, out_files, params):
        means = pandas.read_csv(in_files[0]).groupby(params["text"]).mean()
        out_files[0].write(means.to_csv().encode())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return template.make(tmp_path / "grape", "java")


def build(folder: Path) -> Path:
    return bundler.build(folder, folder / "dist", wheels.Sandbox())


def change(folder: Path, file: str, old: str, new: str) -> None:
    place = folder / file
    text = place.read_text()
    assert old in text
    place.write_text(text.replace(old, new))


def faults_of(folder: Path) -> str:
    with pytest.raises(ProjectError) as caught:
        build(folder)
    return "\n".join(caught.value.faults)


@pytest.fixture(scope="module")
def owner(users: dict[str, Client]) -> Client:
    """The owner of a new account.  Each test has a storlet and containers of its own there: its
    sandboxes start once."""
    return users["admin:admin"].on(f"AUTH_{unique('builds')}")


@pytest.fixture
def client(owner: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The owner, as which commands log in."""
    monkeypatch.setenv("OS_STORAGE_URL", owner.storage_url)
    monkeypatch.setenv("OS_AUTH_TOKEN", owner.token)
    return owner


@pytest.fixture(scope="module")
def enabled(owner: Client) -> Iterator[Storlets]:
    """The client of the account, which has storlets."""
    assert owner.put("").status in {201, 202}
    with Storlets(Token(owner.storage_url, owner.token)) as made:
        made.enable()
        yield made


@pytest.fixture
def storlets(client: Client, enabled: Storlets) -> Storlets:
    """The same in tests with commands."""
    return enabled


def result_of(folder: Path, content: bytes, text: str, *, builds_again: bool = True) -> bytes:
    """The output of a project's storlet on an object with ``content``, by commands only.

    :param builds_again: the project that comes back from the cluster is built, too.
    """
    source, output = folder.parent / "input", folder.parent / "output"
    source.write_bytes(content)
    run("build", str(folder))
    (bundle,) = (folder / "dist").glob("*.storlet")
    run("deploy", str(bundle))
    run("upload", str(source), f"{folder.name}/input")
    parameters = ["-p", f"text={text}"] if text else []
    run("invoke", folder.name, f"{folder.name}/input", *parameters, "-o", str(output))
    copy = folder.parent / "copy" / folder.name
    run("download", folder.name, "--source", str(copy))
    assert (copy / "storlet.toml").read_bytes() == (folder / "storlet.toml").read_bytes()
    # A compiler may write the path of the source into a program.
    for path in (copy / "src").rglob("*"):
        assert path.read_bytes() == (folder / path.relative_to(copy)).read_bytes()
    if builds_again:
        run("build", str(copy))
    return output.read_bytes()


@pytest.mark.usefixtures("storlets")
def test_a_python_project_with_a_library_runs(tmp_path: Path) -> None:
    """It has libraries of its own, numpy among them."""
    folder = tmp_path / "means"
    run("init", str(folder))
    (folder / "src/means.py").write_text(PANDAS)
    change(folder, "storlet.toml", "requirements = []", 'requirements = ["pandas>=2"]')
    change(folder, "storlet.toml", 'text = "apple"', 'text = "city"')
    content = b"city,degrees\nBern,1\nBern,3\nBasel,5\n"
    expected = b"city,degrees\nBasel,5.0\nBern,2.0\n"
    (folder / "sample.txt").write_bytes(content)
    (folder / "expected.txt").write_bytes(expected)
    # A unit test builds a project with a library from its bundle, and compares the bytes; with
    # pandas it takes long.
    assert result_of(folder, content, "city", builds_again=False) == expected


@pytest.mark.parametrize(
    ("language", "kind"),
    [
        ("python", "service"),
        ("java", "filter"),
        ("java", "csv"),
        ("java", "image"),
        ("java", "merge"),
        ("java", "service"),
        ("native", "service"),
    ],
)
def test_a_new_project_passes_its_cases_in_the_cluster(
    storlets: Storlets, tmp_path: Path, language: str, kind: str
) -> None:
    """All others in Python and native code go through the commands, below, with the same check."""
    if language == "native" and shutil.which("cc") is None:
        pytest.skip("a C compiler is missing")
    name = f"new-{language}-{kind}"
    folder = template.make(tmp_path / name, language, kind)
    assert storlets.deploy_bundle(name, build(folder).read_bytes(), check=True) == 1
    if kind == "service":
        storlets.upload(f"{name}/codes.csv", b"HFA,Haifa\nTLV,Tel Aviv\n")
        storlets.upload(f"{name}/input", (folder / "sample.txt").read_bytes())
        with storlets.run(name, f"{name}/input", {"table": f"/{name}/codes.csv"}) as output:
            assert output.read() == b"Haifa\nTel Aviv\nHaifa\n"


@pytest.mark.usefixtures("storlets")
def test_a_java_project_with_a_library_runs_and_its_lock_holds(folder: Path) -> None:
    change(folder, "storlet.toml", "maven = []", f'maven = ["{LIBRARY}"]')
    change(
        folder,
        "src/Grape.java",
        'out.write(line + "\\n");',
        'out.write(org.apache.commons.csv.CSVFormat.DEFAULT.format(line, "a,b") + "\\n");',
    )
    expected = b'one apple,"a,b"\nthree apples,"a,b"\n'
    (folder / "expected.txt").write_bytes(expected)
    output = result_of(folder, (folder / "sample.txt").read_bytes(), "apple")
    assert output == expected
    lock = folder / LOCK
    lock.write_text(lock.read_text().replace("sha256:", "sha256:0"))
    assert f"delete {LOCK}" in faults_of(folder)


def test_equal_sources_give_equal_bytes(folder: Path) -> None:
    first = build(folder).read_bytes()
    assert build(folder).read_bytes() == first


def test_errors_of_the_compiler_name_file_and_line(folder: Path) -> None:
    change(folder, "src/Grape.java", "kept++", "kept+++")
    assert "src/Grape.java:40: error:" in faults_of(folder)


def test_a_library_that_does_not_exist_is_named(folder: Path) -> None:
    change(folder, "storlet.toml", "maven = []", 'maven = ["org.apache.commons:commons-csv:0.0.0"]')
    assert "commons-csv:jar:0.0.0" in faults_of(folder)


@pytest.fixture(scope="module")
def node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with one_node(cluster, tmp_path_factory.mktemp("node") / "output"):
        yield


@pytest.mark.usefixtures("client", "node")
@pytest.mark.parametrize(
    ("language", "kind"),
    [(language, kind) for language in ("python", "native") for kind in template.kinds()],
)
def test_a_template_goes_from_init_to_invoke_by_commands_only(
    tmp_path: Path, language: str, kind: str
) -> None:
    compiler = "cc" if kind in {"image", "service"} else "cargo"
    if language == "native" and shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is missing")
    name = f"{language}-{kind}"
    folder, output = tmp_path / name, tmp_path / "output"
    run("enable")
    run("init", str(folder), "--language", language, "--template", kind)
    if language == "native" and kind != "service":
        run("test", "--no-sandbox", str(folder))
    run("test", "--sandbox", str(folder))
    run("build", str(folder))
    run("deploy", str(folder / f"dist/{name}-0.1.0.storlet"))
    case = project.read(folder).document["tests"][0]
    parameters, inputs = case.get("parameters", {}), manifest.inputs_of(case)
    for each in inputs:
        run("upload", str(folder / each), f"{name}/{each}")
    words = [word for key, value in parameters.items() for word in ("-p", f"{key}={value}")]
    words += [word for each in inputs[1:] for word in ("--resource", f"{name}/{each}")]
    run("invoke", name, f"{name}/{inputs[0]}", *words, "-o", str(output))
    if "output" in case:
        assert output.read_bytes() == (folder / case["output"]).read_bytes()
    assert output.stat().st_size > 0


def run(*words: str) -> None:
    assert main(words) == 0, words


TOOLS = {"c": "gcc", "cpp": "g++", "rust": "cargo", "go": "go"}


@pytest.mark.usefixtures("storlets")
@pytest.mark.parametrize("language", TOOLS)
def test_a_native_sample_runs_from_its_source(tmp_path: Path, language: str) -> None:
    if shutil.which(TOOLS[language]) is None:
        pytest.skip(f"{TOOLS[language]} is missing")
    folder = tmp_path / f"crc-{language}"
    shutil.copytree(SAMPLES / language, folder)
    content = (folder / "input.txt").read_bytes()
    # The files that come back are equal in all languages.
    output = result_of(folder, content, "", builds_again=language == "c")
    assert output == (folder / "expected.txt").read_bytes()


@pytest.mark.usefixtures("storlets")
def test_an_existing_program_runs_with_the_libraries_of_its_bundle(tmp_path: Path) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is missing")
    folder = tmp_path / "jq"
    shutil.copytree(SAMPLES / "jq", folder)
    content = (folder / "input.txt").read_bytes()
    assert result_of(folder, content, "") == (folder / "expected.txt").read_bytes()


def test_the_native_index_reads_the_objects_of_a_container(
    storlets: Storlets, tmp_path: Path
) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing")
    folder = tmp_path / "index-c"
    shutil.copytree(SAMPLES / "index", folder)
    storlets.upload("notes/a", b"the first of a\nmore\n")
    storlets.upload("notes/b", b"one line")
    assert result_of(folder, b"", "") == b"a\tthe first of a\nb\tone line\n"


def test_the_native_record_reads_a_part_of_an_object(storlets: Storlets, tmp_path: Path) -> None:
    folder = tmp_path / "record-c"
    shutil.copytree(SAMPLES / "record", folder)
    assert storlets.deploy_bundle(folder.name, build(folder).read_bytes(), check=True) == 1
    content = b"".join(b"record %08d\n" % number for number in range(1 << 18))
    storlets.upload("samples/records", content)
    parameters = {"bytes": "16", "first": "-3", "count": "2"}

    def usage(*, on_proxy: bool) -> str:
        with storlets.run("record-c", "samples/records", parameters, on_proxy=on_proxy) as output:
            assert output.read() == content[-48:-16]
        return output.usage

    # At the proxy server it reads ahead, here to the end.
    for on_proxy, size in ((False, 32), (True, 48)):
        # The answer has no usage if the run ends late, as on a busy machine.
        assert f";in={size};" in retry_until(partial(usage, on_proxy=on_proxy))
