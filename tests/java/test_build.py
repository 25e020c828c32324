"""The build is reproducible, keeps the API of compiled storlets, and makes working samples."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.java.conftest import BUILD, BUILD_SAMPLES, ROOT
from tests.java.harness import Part, Worker

SAMPLES = sorted(path.parent for path in (ROOT / "storlets").glob("java_*/manifest.json"))

# The contract, line for line as javap prints it.
API = """
public interface IStorlet
  public abstract void invoke(ArrayList<StorletInputStream>, ArrayList<StorletOutputStream>, Map<String, String>, StorletLogger) throws StorletException
public class StorletException extends Exception
  public StorletException(String)
public class StorletInputStream
  protected InputStream stream
  public StorletInputStream(FileDescriptor, HashMap<String, String>)
  protected StorletInputStream(HashMap<String, String>)
  public HashMap<String, String> getMetadata()
  public InputStream getStream()
  public void close()
public class RangeStorletInputStream extends StorletInputStream
  public RangeStorletInputStream(FileDescriptor, HashMap<String, String>, long, long) throws IOException
public class RangeFileInputStream extends FileInputStream
  public RangeFileInputStream(FileDescriptor, long, long) throws IOException
  public int available()
public final class SeekableStorletInputStream extends StorletInputStream
  public static SeekableStorletInputStream ofFile(FileDescriptor, HashMap<String, String>, long) throws IOException
  public SeekableInputStream getStream()
public abstract class SeekableInputStream extends InputStream
  public final long size()
  public abstract long position()
  public abstract void seek(long) throws IOException
public class StorletOutputStream
  protected OutputStream stream
  public StorletOutputStream(FileDescriptor, HashMap<String, String>)
  public HashMap<String, String> getMetadata()
  public void close()
public class StorletObjectOutputStream extends StorletOutputStream
  public StorletObjectOutputStream(FileDescriptor, HashMap<String, String>, FileDescriptor)
  public OutputStream getStream()
  public OutputStream getMDStream()
  public void closeMD()
  public void setMetadata(Map<String, String>) throws StorletException
public class StorletLogger
  public StorletLogger(FileDescriptor)
  public void emitLog(String)
  public void Flush()
  public void close()
public class StorletUtils
  public static final String getClassFolder(Class<?>)
"""


def contract() -> list[tuple[str, list[str]]]:
    blocks = re.split(r"\n(?=public )", API.strip())
    return [
        (head, [line.strip() for line in members])
        for head, *members in (block.splitlines() for block in blocks)
    ]


def name_of(head: str) -> str:
    return next(word for word in head.split() if word[0].isupper())


@pytest.fixture(scope="module")
def printed(java_dir: Path) -> dict[str, str]:
    """The output of javap for each class of the contract, by name; one start for all of them."""
    names = [name_of(head) for head, _ in contract()]
    classes = [f"org.openstack.storlet.common.{name}" for name in names]
    command = ["javap", "-protected", "-cp", f"{java_dir}/storlet-api.jar", *classes]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    texts = re.split(r"^Compiled from .*\n", text, flags=re.MULTILINE)[1:]
    plain = [re.sub(r"\b(?:[a-z]+\.)+(?=[A-Z])", "", each) for each in texts]
    return dict(zip(names, plain, strict=True))


@pytest.mark.parametrize(
    ("head", "members"), contract(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_api_is_that_of_the_contract(
    printed: dict[str, str], head: str, members: list[str]
) -> None:
    plain = printed[name_of(head)]
    assert plain.startswith(f"{head} {{\n")
    for member in members:
        assert f"  {member};\n" in plain


def digests(folder: Path) -> dict[str, str]:
    kinds = (".jar", ".so")
    return {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.iterdir())
        if p.suffix in kinds
    }


def test_equal_sources_give_equal_files(java_dir: Path, sample_dir: Path, tmp_path: Path) -> None:
    sources = tmp_path / "a copy/storlet_daemon/java"
    shutil.copytree(BUILD.parent, sources)
    subprocess.run([sources / "build.sh", tmp_path / "out"], check=True)
    assert digests(tmp_path / "out") == digests(java_dir)
    subprocess.run([BUILD_SAMPLES, tmp_path / "samples", tmp_path / "out"], check=True)
    assert digests(tmp_path / "samples") == digests(sample_dir)


def test_a_build_of_unchanged_sources_does_nothing(java_dir: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in java_dir.iterdir()}
    began = time.monotonic()
    subprocess.run([BUILD, "--test", java_dir], check=True)
    assert time.monotonic() - began < 3
    assert {path.name: path.stat().st_mtime_ns for path in java_dir.iterdir()} == before


def test_nothing_is_written_beside_the_sources(java_dir: Path) -> None:
    found = [
        path
        for path in BUILD.parent.rglob("*")
        if path.name == "target" or path.suffix in (".class", ".jar", ".so")
    ]
    assert found == []


def test_the_class_archive_can_be_made_and_used(
    java_dir: Path, probe_jar: Path, tmp_path: Path
) -> None:
    java = shutil.which("java")
    archive = tmp_path / "classes.jsa"
    result = subprocess.run(
        ["sh", java_dir / "make-cds.sh", archive],
        check=True,
        env={"JAVA": str(java), "PATH": "/usr/bin:/bin"},
        capture_output=True,
    )
    assert (result.stdout, result.stderr) == (b"", b"")
    flags = ("-XX:+UseSerialGC", "-Xshare:on", f"-XX:SharedArchiveFile={archive}")
    with Worker(java_dir, [probe_jar], "probe.Probe", flags=flags) as worker:
        assert worker.first == {"type": "ready"}
        assert worker.run(b"data").output == b"data"


# --- samples ------------------------


def manifest_of(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return manifest


@pytest.mark.parametrize("folder", SAMPLES, ids=lambda path: path.name)
def test_a_java_sample_returns_the_expected_output(
    java_dir: Path, sample_dir: Path, tmp_path: Path, folder: Path
) -> None:
    manifest = manifest_of(folder)
    jar = Path(shutil.copy(sample_dir / manifest["file"], tmp_path))
    for dependency in manifest["dependencies"]:
        place = Path(shutil.copyfile(folder / dependency["file"], tmp_path / dependency["file"]))
        place.chmod(int(dependency["permissions"], 8))
    names = manifest["input"] if isinstance(manifest["input"], list) else [manifest["input"]]
    parts = [Part((folder / name).read_bytes(), is_file=True) for name in names]
    with Worker(java_dir, [jar], manifest["main"]) as worker:
        for _ in range(2):
            outcome = worker.start(parts, log_limit=1000, **manifest["parameters"]).finish()
            assert outcome.is_ok(), outcome
            assert outcome.output == (folder / manifest["expected"]).read_bytes()
            assert outcome.metadata.items() >= manifest["expected_metadata"].items()
            assert worker.reports()[1] == {"type": "end", "recycle": False, "failed": False}


@pytest.mark.parametrize("name", ["java_csv", "java_partitions_identity"])
def test_partitions_return_each_line_once(java_dir: Path, sample_dir: Path, name: str) -> None:
    manifest = manifest_of(ROOT / "storlets" / name)
    data = b"id,text\n" + b"".join(
        b"%d,%s\n" % (number, b"x" * (number % 13)) for number in range(500)
    )
    with Worker(java_dir, [sample_dir / manifest["file"]], manifest["main"]) as worker:
        for step in (len(data), 1000, 97, 8):
            got = b""
            for start in range(0, len(data), step):
                parameters: dict[str, Any] = {
                    "partition_bytes": str(min(step, len(data) - start)),
                    "partition": "later" if start else "first",
                }
                if start:
                    parameters["header"] = "id,text"
                part = Part(data, is_file=True, fields={"start": start})
                outcome = worker.start([part], **parameters).finish()
                worker.reports()
                assert outcome.is_ok(), outcome
                got += outcome.output
            assert got == data


@pytest.mark.parametrize(
    "parameters",
    [
        {"columns": "nosuch"},
        {"where": "id"},
        {"where": "id>many"},
        {"delimiter": "ab"},
        {"partition": "later"},
        {"partition_bytes": "x"},
    ],
    ids=str,
)
def test_csv_refuses_invalid_parameters_before_the_first_byte(
    java_dir: Path, sample_dir: Path, parameters: dict[str, Any]
) -> None:
    manifest = manifest_of(ROOT / "storlets/java_csv")
    with Worker(java_dir, [sample_dir / manifest["file"]], manifest["main"]) as worker:
        outcome = worker.start(b"id,text\n1,2\n", **parameters).finish()
        assert outcome.types == ["started", "done"]
        assert outcome.done["code"] == "storlet.failed"
