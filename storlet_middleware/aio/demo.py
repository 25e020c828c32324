"""The demo: upload every sample of ``storlets/``, run it by GET, compare with the expected output.

Then one PUT and one COPY with a storlet, a query and a picture (:mod:`demo_library`), and commands
to paste into a shell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from . import demo_library, java, programs
from .client import Answer, Client, log_in
from .home import Home
from .progress import AioError, say

USER: Final = "test:tester"
CONTAINER: Final = "demo"
OUTPUT_COLUMNS: Final = 44


@dataclass(frozen=True)
class Sample:
    """One folder of ``storlets/``."""

    folder: Path
    manifest: dict[str, Any]
    code: Path

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def inputs(self) -> list[str]:
        given = self.manifest["input"]
        return list(given) if isinstance(given, list) else [given]

    @property
    def query(self) -> str:
        parameters = self.manifest.get("parameters", {})
        return f"?{urlencode(parameters)}" if parameters else ""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a request that runs it; one header names all further inputs."""
        others = [quote(f"/{CONTAINER}/{self.folder.name}/{name}") for name in self.inputs[1:]]
        extra = {"X-Storlet-Extra-Resources": ", ".join(others)} if others else {}
        return {"X-Run-Storlet": self.name, **extra}

    def path(self, name: str) -> str:
        """Quoted path of one of its inputs."""
        return quote(f"{CONTAINER}/{self.folder.name}/{name}")

    @property
    def input_bytes(self) -> int:
        return sum((self.folder / name).stat().st_size for name in self.inputs)

    def is_right(self, answer: Answer) -> bool:
        """Whether the answer is the one in the manifest, which may be an expected error."""
        wanted = self.manifest.get("expected_error")
        if wanted:
            return answer.broken or (
                answer.status == 422 and answer.headers.get("X-Storlet-Error") == wanted
            )
        return (
            answer.status == 200
            and not answer.broken
            and answer.body == (self.folder / self.manifest["expected"]).read_bytes()
        )


def show(home: Home) -> int:
    """Run the samples; return 0 when all results are as expected."""
    cluster = programs.load_cluster(home)
    client = log_in(cluster["auth_url"], USER, cluster["users"][USER])
    samples, absent = find_samples(
        Path(cluster["java_dir"]) / java.SAMPLE_JARS if cluster["java_dir"] else None
    )
    if not samples:
        raise AioError(f"no samples in {java.SAMPLES}")
    say("\nAs a tenant: enable storlets for the account, and upload them as ordinary objects.")
    client.must("POST", "", {"X-Account-Meta-Storlet-Enabled": "True"})
    for container in ("storlet", "dependency", "storletlog", CONTAINER):
        client.must("PUT", container)
    for sample in samples:
        upload(client, sample)
    say(
        "GET with X-Run-Storlet, one line per sample (the first run in a language includes the "
        "start "
        "of the sandbox or worker):\n"
    )
    good = run_all(client, samples)
    for name in absent:
        say(f"{name} was not built on this machine")
    good = run_put_and_copy(client, samples) and good
    good = demo_library.show(client, CONTAINER) and good
    say_what_next(home, cluster, samples)
    return 0 if good else 1


def find_samples(jars: Path | None) -> tuple[list[Sample], list[str]]:
    """The samples, and the names of those whose jar has not been built."""
    found, absent = [], []
    for path in sorted(java.SAMPLES.glob("*/manifest.json")):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        places = [path.parent / manifest["file"], *([jars / manifest["file"]] if jars else [])]
        code = next((place for place in places if place.is_file()), None)
        if code:
            found.append(Sample(path.parent, manifest, code))
        else:
            absent.append(manifest["name"])
    return found, absent


def upload(client: Client, sample: Sample) -> None:
    """The storlet, its dependencies and its inputs."""
    dependencies = sample.manifest.get("dependencies", [])
    for dependency in dependencies:
        headers = {"X-Object-Meta-Storlet-Dependency-Version": "1"}
        if "permissions" in dependency:
            headers["X-Object-Meta-Storlet-Dependency-Permissions"] = dependency["permissions"]
        content = (sample.folder / dependency["file"]).read_bytes()
        client.must("PUT", f"dependency/{quote(dependency['file'])}", headers, content)
    headers = {
        "Content-Type": "application/octet-stream",
        "X-Object-Meta-Storlet-Language": sample.manifest["language"],
        "X-Object-Meta-Storlet-Interface-Version": "1.0",
        "X-Object-Meta-Storlet-Object-Metadata": "no",
        "X-Object-Meta-Storlet-Main": sample.manifest["main"],
    }
    if dependencies:
        headers["X-Object-Meta-Storlet-Dependency"] = ",".join(d["file"] for d in dependencies)
    client.must("PUT", f"storlet/{quote(sample.name)}", headers, sample.code.read_bytes())
    for name in sample.inputs:
        client.must("PUT", sample.path(name), {}, (sample.folder / name).read_bytes())


def run_all(client: Client, samples: list[Sample]) -> bool:
    """Print a table of the results; return whether all are as expected."""
    width = max(len(sample.name) for sample in samples)
    say(
        f"{'storlet':{width}} {'language':8} {'ran on':7} {'in':>8} {'out':>8} {'ms':>6}  first "
        "line of output"
    )
    good = True
    for sample in samples:
        answer = client.request("GET", sample.path(sample.inputs[0]) + sample.query, sample.headers)
        right = sample.is_right(answer)
        good = good and right
        say(
            f"{sample.name:{width}} {sample.manifest['language']:8} "
            f"{answer.headers.get('X-Storlet-Ran-On', '-'):7} {sample.input_bytes:8} "
            f"{len(answer.body):8} {answer.seconds * 1000:6.0f}  {gist(answer)}"
            f"{'' if right else '   <-- NOT AS EXPECTED'}"
        )
    return good


def gist(answer: Answer) -> str:
    """One printable line of an answer: the error code, or the first line of output."""
    code = answer.headers.get("X-Storlet-Error")
    if code:
        return f"{answer.status} {code}"
    if answer.status >= 300:
        return f"{answer.status} {answer.body[:OUTPUT_COLUMNS].decode(errors='replace').strip()}"
    line = answer.body.splitlines()[0] if answer.body else b""
    text = line.decode(errors="replace")
    if "\ufffd" in text or not text.expandtabs().isprintable():
        return f"(binary: {line[:8].hex(' ')} ...)"
    return text if len(text) <= OUTPUT_COLUMNS else text[: OUTPUT_COLUMNS - 3] + "..."


def run_put_and_copy(client: Client, samples: Iterable[Sample]) -> bool:
    """Run a sample by PUT and by COPY; return whether both results are as expected."""
    sample = next(s for s in samples if len(s.inputs) == 1 and s.manifest.get("expected"))
    source = sample.inputs[0]
    put = client.request(
        "PUT",
        f"{CONTAINER}/put{sample.query}",
        sample.headers,
        (sample.folder / source).read_bytes(),
    )
    copy_headers = {**sample.headers, "Destination": f"/{CONTAINER}/copied"}
    copy = client.request("COPY", sample.path(source) + sample.query, copy_headers)
    good = True
    say()
    for verb, answer, target in (("PUT", put, "put"), ("COPY", copy, "copied")):
        stored = client.request("GET", f"{CONTAINER}/{target}")
        right = answer.status == 201 and sample.is_right(stored)
        good = good and right
        where = answer.headers.get("X-Storlet-Ran-On", "-")
        say(
            f"{verb:4} through {sample.name}: {answer.status}, ran on {where}, stored "
            f"{len(stored.body)} bytes{'' if right else '   <-- NOT AS EXPECTED'}"
        )
    return good


def say_what_next(home: Home, cluster: dict[str, Any], samples: list[Sample]) -> None:
    """Print complete commands to paste."""
    sample = next(
        (s for s in samples if s.manifest.get("parameters") and len(s.inputs) == 1), samples[0]
    )
    url, key = cluster["storage_urls"][USER], cluster["users"][USER]
    target = f'"$URL/{sample.path(sample.inputs[0])}{sample.query}"'
    swift = f"{cluster['venv']}/bin/swift -A {cluster['auth_url']} -U {USER} -K {key}"
    say(f"""
Try next (user {USER}, key {key}):

  TOKEN=$(curl -si -H 'X-Auth-User: {USER}' -H 'X-Auth-Key: {key}' {cluster["auth_url"]} \\
      | tr -d '\\r' | sed -n 's/^X-Auth-Token: //p')
  URL={url}
  curl -i -H "X-Auth-Token: $TOKEN" -H 'X-Run-Storlet: {sample.name}' {target}
  curl -H "X-Auth-Token: $TOKEN" "$URL/{CONTAINER}/{demo_library.PICTURE}" -o histogram.svg
  curl -s {cluster["auth_url"].removesuffix("/auth/v1.0")}/info

  {swift} list storlet
  {swift} download {CONTAINER} {sample.folder.name}/{sample.inputs[0]} -o - \\
      -H 'X-Run-Storlet: {sample.name}'

  {cluster["venv"]}/bin/storlet sandboxes --conf {cluster["storlet_conf"]}

make status shows the processes, make down stops them; logs are in {home.logs}.""")
