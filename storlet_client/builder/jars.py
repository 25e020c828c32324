"""The jars of a Java storlet: its own, and the libraries that Maven resolves.

The first build of a project with libraries writes ``storlet.maven.lock`` with the SHA-256 of each
jar.  Later builds refuse other bytes; delete the file to resolve again.  If there
is a lock, a process runs Maven again only for other libraries than those of its last build.
"""

from __future__ import annotations

import hashlib
import html
import io
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from storlet_client.builder.project import ProjectError

LOCK = "storlet.maven.lock"
#: The Java of the sandbox.
RELEASE = "17"
_HEAD = "# Made by storlet build; delete this file to resolve the libraries again.\n"
_API = Path(__file__).parent / "java_api"
#: The earliest time that a zip can have, so that equal sources give equal bytes.
_TIME = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o644
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>storlet</groupId>
  <artifactId>storlet</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>com.googlecode.json-simple</groupId>
      <artifactId>json-simple</artifactId>
      <version>1.1.1</version>
      <scope>provided</scope>
      <exclusions>
        <exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>
      </exclusions>
    </dependency>
{dependencies}  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>
    </dependency>
"""
#: The authors' API needs this library, so that each sandbox has it.
_PROVIDED = "json-simple-1.1.1.jar"
#: Where Maven keeps it once it has been downloaded.
_KEPT = Path(".m2/repository/com/googlecode/json-simple/json-simple/1.1.1", _PROVIDED)
#: For programs that run for a second: the optimizing compiler would use twice the processor time,
#: and a collector with threads of its own starts later.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: The compiler, also for tests.
JAVAC = ("javac", *(f"-J{each}" for each in _SHORT_LIVED))
#: Of a library of Maven's, also without its own colours.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

Files = dict[str, tuple[bytes, int]]
#: The jars of the last coordinates of this process: ``deploy --watch`` builds at each save.
_resolved: dict[tuple[str, ...], dict[str, bytes]] = {}
#: The classes of the authors' API and of further sources, which all runs of a process need.
_compiled: dict[Path, dict[Path, bytes]] = {}


def build(
    folder: Path, name: str, source: Mapping[str, tuple[bytes, int]], coordinates: Sequence[str]
) -> tuple[Files, tuple[str, ...]]:
    """All jars by their names, and the lines of the lock.

    :param folder: the project, which has the lock.
    :param source: content and mode by path below ``src/``.
    :param coordinates: libraries, each ``group:artifact:version``.
    :raises ProjectError: with all errors of the compiler, or Maven's.
    """
    if not any(path.endswith(".java") for path in source):
        raise ProjectError(["src: there is no .java file"])
    _require(("javac", "a JDK, version 17 or later"), *_maven(coordinates))
    with tempfile.TemporaryDirectory() as work:
        libraries = Path(work, "lib")
        libraries.mkdir()
        if not (folder / LOCK).exists():
            _resolved.clear()
        _resolve(coordinates, Path(work), libraries)
        lines = _locked(folder, libraries, coordinates)
        classes = _compile(source, Path(work), libraries)
        files = {jar.name: (jar.read_bytes(), _FILE_MODE) for jar in _own(libraries)}
        own = f"{name}.jar"
        if own in files:
            raise ProjectError([f"maven: a library has the name of the storlet's own jar: {own}"])
        return {own: (_jar(classes, source), _FILE_MODE), **files}, lines


def runtime(work: Path, sources: Path) -> list[str]:
    """The class path of the authors' API and of the classes of ``sources``, made below ``work``.

    :raises ProjectError: a program is missing, or Maven failed.
    """
    _require(("java", "a JDK, version 17 or later"), ("javac", "a JDK"), *_maven(()))
    libraries, classes = work / "api", work / "api-classes"
    libraries.mkdir()
    _resolve((), work, libraries)
    if sources not in _compiled:
        _compile_api(sources, libraries, classes)
        found = (path for path in classes.rglob("*") if path.is_file())
        _compiled[sources] = {path.relative_to(classes): path.read_bytes() for path in found}
        return [str(classes), f"{libraries}/*"]
    for name, content in _compiled[sources].items():
        place = classes / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return [str(classes), f"{libraries}/*"]


def _compile_api(sources: Path, libraries: Path, classes: Path) -> None:
    names = [str(path) for top in (_API, sources) for path in sorted(top.rglob("*.java"))]
    options = ["--release", RELEASE, "-g", "-encoding", "UTF-8", "-proc:none", "-nowarn"]
    done = _run([*JAVAC, *options, "-cp", f"{libraries}/*", "-d", str(classes), *names])
    if done.returncode:
        raise ProjectError([f"the authors' API cannot be compiled: {done.stdout.rstrip()}"])


def _require(*needs: tuple[str, str]) -> None:
    faults = [
        f"{command} is missing: install {package}, and put it on PATH"
        for command, package in needs
        if shutil.which(command) is None
    ]
    if faults:
        raise ProjectError(faults)


def _kept() -> Path:
    return Path.home() / _KEPT


def _maven(coordinates: Sequence[str]) -> list[tuple[str, str]]:
    """Programs that :func:`_resolve` needs: no Maven without libraries, if it has run before."""
    return [("mvn", "Maven")] if coordinates or not _kept().is_file() else []


def _resolve(coordinates: Sequence[str], work: Path, target: Path) -> None:
    """Let Maven copy the libraries and all that they need, and the API's own library."""
    if not _maven(coordinates):
        shutil.copy(_kept(), target)
        return
    key = tuple(coordinates)
    if key not in _resolved:
        _fetch(coordinates, work, target)
        _resolved.clear()
        _resolved[key] = {jar.name: jar.read_bytes() for jar in target.glob("*.jar")}
        return
    for name, content in _resolved[key].items():
        (target / name).write_bytes(content)


def _fetch(coordinates: Sequence[str], work: Path, target: Path) -> None:
    rows = (map(html.escape, each.split(":")) for each in coordinates)
    pom = work / "pom.xml"
    text = _POM.format(dependencies="".join(_DEPENDENCY.format(*row) for row in rows))
    pom.write_text(text, encoding="utf-8")
    options = [f"-DoutputDirectory={target}", "-DincludeScope=compile"]
    command = ["mvn", "-B", "-q", "-Dstyle.color=never", "-f", str(pom), _PLUGIN, *options]
    done = _run(command, {"MAVEN_OPTS": os.environ.get("MAVEN_OPTS") or " ".join(_SHORT_LIVED)})
    if done.returncode:
        said = [
            _COLOURS.sub("", line).replace("[ERROR]", "").strip()
            for line in done.stdout.splitlines()
        ]
        reasons = [line for line in said if line] or [f"exit status {done.returncode}"]
        raise ProjectError([f"maven: {reasons[0]}"])


def _own(libraries: Path) -> list[Path]:
    """All jars of a bundle, without those that each sandbox has."""
    return sorted(path for path in libraries.glob("*.jar") if path.name != _PROVIDED)


def _locked(folder: Path, libraries: Path, coordinates: Sequence[str]) -> tuple[str, ...]:
    """A line for each library; refuse those that are not of the lock."""
    lines = tuple(
        f"{jar.name} sha256:{hashlib.sha256(jar.read_bytes()).hexdigest()}"
        for jar in _own(libraries)
    )
    if not coordinates:
        return ()
    lock = folder / LOCK
    if not lock.exists():
        lock.write_text(_HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    known = {line for line in lock.read_text(encoding="utf-8").splitlines() if line[:1] != "#"}
    faults = [f"maven: {LOCK} does not have {line}" for line in lines if line not in known]
    faults += [f"maven: {line} of {LOCK} is missing" for line in sorted(known - set(lines) - {""})]
    if faults:
        raise ProjectError([*faults, f"maven: delete {LOCK} to resolve the libraries again"])
    return lines


def _compile(source: Mapping[str, tuple[bytes, int]], work: Path, libraries: Path) -> Path:
    top, classes = work / "src", work / "classes"
    classes.mkdir()
    for path, (content, _) in source.items():
        place = top / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    names = sorted(path for path in source if path.endswith(".java"))
    listed = work / "sources"
    listed.write_text("".join(f'"{top / name}"\n' for name in names), encoding="utf-8")
    options = [
        "--release", RELEASE, "-g", "-encoding", "UTF-8", "-proc:none",
        # Otherwise the first concatenation of strings loads a class writer, in tens of
        # milliseconds of a first run.
        "-XDstringConcat=inline",
        # The API's classes are in the sandbox.
        "-sourcepath", str(_API), "-implicit:none",
        "-cp", f"{libraries}/*", "-d", str(classes),
    ]  # fmt: skip
    done = _run([*JAVAC, *options, f"@{listed}"])
    if done.returncode:
        said = done.stdout.replace(f"{top}/", "src/").rstrip()
        raise ProjectError([said])
    return classes


def _jar(classes: Path, source: Mapping[str, tuple[bytes, int]]) -> bytes:
    """The compiled classes, and the files of the source that are no Java, as resources."""
    content = {
        path.relative_to(classes).as_posix(): path.read_bytes() for path in classes.rglob("*.class")
    }
    content |= {path: data for path, (data, _) in source.items() if not path.endswith(".java")}
    content.setdefault("META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\n\r\n")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as jar:
        # Java reads the manifest first.
        for path in sorted(content, key=lambda each: (each != "META-INF/MANIFEST.MF", each)):
            jar.writestr(zipfile.ZipInfo(path, _TIME), content[path], zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _run(
    command: Sequence[str], variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **(variables or {})},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
