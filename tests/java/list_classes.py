"""Writes ``storlet_daemon/java/classes.list``: the JDK classes that the Java samples and worker
load.

::

    storlet_daemon/java/build.sh build/java && storlets/build_java.sh build/java/samples
    python3 -m tests.java.list_classes build/java

Run it when the worker uses more of the JDK, or with a new JDK; the list only reduces the workers'
memory.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.java.harness import FLAGS, Part, Worker

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "storlet_daemon/java/classes.list"
# Image classes are left out: they would double the list for one sample.
SAMPLES = [
    path.parent
    for path in sorted((ROOT / "storlets").glob("java_*/manifest.json"))
    if "thumbnail" not in str(path)
]


def classes_of(java_dir: Path, sample: Path) -> list[str]:
    """The classes that the JVM reports as loaded for one run of the sample and one failure."""
    manifest = json.loads((sample / "manifest.json").read_text())
    names = manifest["input"] if isinstance(manifest["input"], list) else [manifest["input"]]
    parts = [
        Part((sample / name).read_bytes(), is_file=True, fields={"start": 0}) for name in names
    ]
    with tempfile.NamedTemporaryFile() as loaded:
        flags = (*FLAGS, "-Xshare:off", f"-XX:DumpLoadedClassList={loaded.name}")
        with Worker(
            java_dir, [java_dir / "samples" / manifest["file"]], manifest["main"], flags=flags
        ) as worker:
            worker.start(parts, log_limit=1000, **manifest["parameters"]).finish()
            worker.reports()
        return Path(loaded.name).read_text().splitlines()


def is_of_the_jdk(line: str) -> bool:
    """Classes by name only: not ours, not a storlet's, and none of the forms that depend on the
    JVM's version.
    """
    return line.startswith(("java/", "javax/", "jdk/", "sun/")) and " " not in line


def main(java_dir: Path) -> None:
    lines: dict[str, None] = {}
    for sample in SAMPLES:
        lines.update(dict.fromkeys(filter(is_of_the_jdk, classes_of(java_dir, sample))))
    LIST.write_text("".join(f"{line}\n" for line in lines))
    print(f"{LIST}: {len(lines)} classes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
