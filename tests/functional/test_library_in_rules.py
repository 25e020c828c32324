"""Each storlet of the system library in a rule that applies to a GET, a COPY and a PUT.

The sources are a plain object, one with erasure coding, and a large object whose segments have
erasure coding.
:mod:`.test_encryption` has the same of encrypted objects, for storlets of each kind.

The inputs and the expected outputs are those of the first test case of a storlet that has one
input and one output.  Three have tests of their own: the output of ``std:encrypt`` is another one
each time, and ``std:archive-pack`` and ``std:fixity-bag`` need other objects of the cluster.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tomllib
import zipfile
from dataclasses import dataclass
from typing import Any

import pytest

from tests.functional.wards import PHYSICIAN, Ward, make_ward
from tests.support.cluster import CHECKOUT
from tests.support.http import Client

LIBRARY = CHECKOUT / "storlets/std"
EXCEPTED = {"archive-pack", "fixity-bag", "encrypt"}
#: The head of the statistics of S3 Select. Of Parquet they count the bytes that were read, and
#: other parts of an object are read than of a file.
STATISTICS = b"S\0\0\0\x10"
#: The progress of S3 Select: of a run that takes seconds, as on a busy machine.
PROGRESS = re.compile(rb"P\0\0\0\x10.{16}", re.DOTALL)
#: Objects are encrypted where they are written, and restored for one user.
SEALED = f"""
version: 1
rules:
- name: seal
  when: {{method: PUT, container: open}}
  run: {{storlet: "std:encrypt", parameters: {{key: rule-key}}}}
  and-reverse-on-read:
    run: {{storlet: "std:decrypt", parameters: {{key: rule-key}}}}
    when: {{user: "{PHYSICIAN}"}}
- name: seal-reads
  when: {{method: [GET, COPY], container: patients}}
  run: {{storlet: "std:encrypt", parameters: {{key: rule-key}}}}
"""
#: A storlet that reads other objects, which are those of ``parts``.
READING = """
version: 1
rules:
- name: reads
  when: {{method: [GET, COPY], container: patients}}
  run: {run}
- name: writes
  when: {{method: PUT, container: open}}
  run: {run}
"""
PACK = '{storlet: "std:archive-pack", parameters: {container: parts, prefix: "bag/"}}'
BAG = '{storlet: "std:fixity-bag", parameters: {container: parts, prefix: bag}}'
#: The storlet would run for the objects that it reads, too.
BAG_OF_ITS_OWN = """
version: 1
rules:
- name: own
  when: {method: GET, container: parts}
  run: {storlet: "std:fixity-bag", parameters: {container: parts, prefix: bag}}
"""
DECLARATION = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"
PAYLOAD = {"data/small": b"small\n", "data/large": b"a large object\n" * 1000}


@dataclass(frozen=True)
class Case:
    """A storlet with an input and the output that belongs to it."""

    name: str
    is_seekable: bool
    input: bytes
    output: bytes
    parameters: dict[str, str]
    secrets: dict[str, str]

    def comparable(self, output: bytes) -> bytes:
        """The part of an output that is the same each time."""
        if not self.name.startswith("s3-select"):
            return output
        output = PROGRESS.sub(b"", output)
        return output.partition(STATISTICS)[0] if self.name == "s3-select-parquet" else output

    def rules(self) -> str:
        """Rules for what is read from ``patients`` and ``coded``, or written to ``open``."""
        # A brace begins a placeholder there.
        parameters = {
            name: value.replace("{", "{{").replace("}", "}}")
            for name, value in self.parameters.items()
        }
        rules = [
            {
                "name": name,
                "when": {"method": methods, "container": containers},
                "run": {"storlet": f"std:{self.name}", "parameters": parameters},
            }
            for name, methods, containers in (
                ("reads", ["GET", "COPY"], ["patients", "coded"]),
                ("writes", "PUT", "open"),
            )
        ]
        return json.dumps({"version": 1, "rules": rules})


def text_of(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def first_case(name: str) -> Case | None:
    folder = LIBRARY / name
    document = tomllib.loads((folder / "storlet.toml").read_text(encoding="utf-8"))
    for case in document["tests"]:
        if isinstance(case["input"], str) and isinstance(case.get("output"), str):
            return Case(
                name,
                document.get("input") == "seekable",
                (folder / case["input"]).read_bytes(),
                (folder / case["output"]).read_bytes(),
                {key: text_of(value) for key, value in case.get("parameters", {}).items()},
                case.get("secrets", {}),
            )
    return None


def put_slo(admin: Client, path: str, content: bytes) -> None:
    """A large object of two segments in ``parts``, a container with erasure coding."""
    half, name = len(content) // 2, path.replace("/", "-")
    segments = {f"parts/{name}-a": content[:half], f"parts/{name}-b": content[half:]}
    for segment, part in segments.items():
        assert admin.put(segment, part).status == 201
    manifest = json.dumps([{"path": segment} for segment in segments]).encode()
    answer = admin.put(path, manifest, query="multipart-manifest=put")
    assert answer.status == 201, answer


def set_secrets(admin: Client, secrets: dict[str, str]) -> None:
    for name, value in secrets.items():
        answer = admin.request("POST", "", query=f"storlet-secrets={name}", body=value.encode())
        assert answer.status in (201, 204), answer


NAMES = sorted(path.parent.name for path in LIBRARY.glob("*/storlet.toml"))
CASES = [case for name in NAMES if name not in EXCEPTED and (case := first_case(name)) is not None]


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    return furnished(make_ward(users))


def furnished(ward: Ward) -> Ward:
    """The account with two containers with erasure coding, and one for copies."""
    for container in ("coded", "parts"):
        assert ward.admin.put(container, b"", {"X-Storage-Policy": "ec21"}).status == 201
    assert ward.admin.put("copies").status == 201
    return ward


def test_each_storlet_has_a_case() -> None:
    assert set(NAMES) - {case.name for case in CASES} == EXCEPTED


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_rule_runs_the_storlet(case: Case, ward: Ward) -> None:
    admin, uploaded = ward.admin, f"open/{case.name}"
    expected = case.comparable(case.output)
    set_secrets(admin, case.secrets)
    assert admin.put("patients/input", case.input).status == 201
    assert admin.put("coded/input", case.input).status == 201
    put_slo(admin, "patients/large", case.input)
    ward.rule(case.rules())

    # One of the copies has erasure coding, too.
    copies = {"patients/input": "copies", "coded/input": "copies", "patients/large": "parts"}
    for path, container in copies.items():
        answer = admin.get(path)
        assert (answer.status, answer.is_broken) == (200, False), answer
        assert case.comparable(answer.body) == expected, answer
        copied = f"{container}/copied"
        copy = admin.put(copied, b"", {"X-Copy-From": path})
        assert copy.status == 201, copy
        assert case.comparable(admin.get(copied).body) == expected

    upload = admin.put(uploaded, case.input)
    if case.is_seekable:  # the body of a PUT is a stream
        assert upload.status == 400, upload
        assert admin.get(uploaded).status == 404
    else:
        assert upload.status == 201, upload
        assert admin.get(uploaded).body == expected


def test_rules_encrypt_and_restore(ward: Ward) -> None:
    admin, content = ward.admin, PAYLOAD["data/large"]
    set_secrets(admin, {"rule-key": "a value for tests, no random bytes"})
    put_slo(admin, "parts/large", content)
    ward.rule(SEALED)
    assert admin.put("open/sealed", content).status == 201
    assert admin.put("open/copied", b"", {"X-Copy-From": "parts/large"}).status == 201
    for path in ("open/sealed", "open/copied"):
        assert admin.get(path).body.startswith(b"STORLENC\x01")
        restored = ward.physician.get(path)
        assert (restored.status, restored.body) == (200, content), restored

    put_slo(admin, "patients/large", content)
    assert admin.put("patients/input", content).status == 201
    unseal = {"X-Run-Storlet": "std:decrypt", "X-Storlet-Parameter-1": "key:rule-key"}
    for path in ("patients/input", "patients/large"):
        assert admin.put("parts/copied", b"", {"X-Copy-From": path}).status == 201
        assert admin.put("parts/read", admin.get(path).body).status == 201
        for sealed in ("parts/copied", "parts/read"):
            assert admin.get(sealed).body.startswith(b"STORLENC\x01")
            assert admin.get(sealed, unseal).body == content


def put_bag(admin: Client) -> dict[str, bytes]:
    """``parts/bag``: its objects have erasure coding, and one is a large object."""
    lines = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in PAYLOAD.items())
    small = PAYLOAD | {"bagit.txt": DECLARATION, "manifest-sha256.txt": "".join(lines).encode()}
    put_slo(admin, "parts/bag/data/large", PAYLOAD["data/large"])
    for name, data in small.items():
        if name != "data/large":
            assert admin.put(f"parts/bag/{name}", data).status == 201
    return {f"bag/{name}": data for name, data in small.items()}


def outputs_of(ward: Ward, run: str, content: bytes) -> list[bytes]:
    """The output of a rule for an object on GET, COPY and PUT; a large object cannot be empty."""
    admin = ward.admin
    assert admin.put("patients/input", content).status == 201
    ward.rule(READING.format(run=run))
    read = admin.get("patients/input")
    assert (read.status, read.is_broken) == (200, False), read
    for name, body, headers in (
        ("parts/copied", b"", {"X-Copy-From": "patients/input"}),
        ("open/made", content, {}),
    ):
        answer = admin.put(name, body, headers)
        assert answer.status == 201, answer
    return [read.body, admin.get("parts/copied").body, admin.get("open/made").body]


def test_rules_pack_other_objects(ward: Ward) -> None:
    members = put_bag(ward.admin)
    for output in outputs_of(ward, PACK, b""):
        with zipfile.ZipFile(io.BytesIO(output)) as archive:
            assert {name: archive.read(name) for name in archive.namelist()} == members
    # The content of the object itself would be lost.
    refused = ward.admin.put("open/other", b"x")
    assert (refused.status, refused.error) == (422, "storlet.failed")
    assert "the input is not empty, and would not be in the archive" in refused.text
    assert ward.admin.get("open/other").status == 404


def test_rules_check_bags(ward: Ward) -> None:
    put_bag(ward.admin)
    size = sum(map(len, PAYLOAD.values()))
    for output in outputs_of(ward, BAG, DECLARATION):
        report = json.loads(output)
        assert (report["valid"], report["objects"], report["bytes"]) == (True, 2, size), report
    refused = ward.admin.put("open/other", b"no declaration")
    assert (refused.status, refused.error) == (422, "storlet.failed"), refused
    assert ward.admin.get("open/other").status == 404
    # A rule that covers what the storlet reads.
    ward.rule(BAG_OF_ITS_OWN)
    refused = ward.admin.get("parts/bag/bagit.txt")
    assert refused.status == 422, refused
    assert "the storlets run each other without end" in refused.text, refused
