"""Each storlet of the system library in a rule that applies to a GET, a COPY and a PUT.

The sources are a plain object, and a large object whose segments have erasure coding.

The inputs and the expected outputs are those of the first test case of a storlet that has one
input and one output.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from typing import Any

import pytest

from tests.functional.wards import Ward, make_ward
from tests.support.cluster import CHECKOUT
from tests.support.http import Client

LIBRARY = CHECKOUT / "storlets/std"
#: Cases of two expect an error, because a run outside of a cluster has no store.  The output of the
#: others has a random salt, or the number of bytes that were read, which depends on the object.
EXCEPTED = {"archive-pack", "fixity-bag", "encrypt", "s3-select-parquet"}


@dataclass(frozen=True)
class Case:
    """A storlet with an input and the output that belongs to it."""

    name: str
    is_seekable: bool
    input: bytes
    output: bytes
    parameters: dict[str, str]
    secrets: dict[str, str]

    def rules(self) -> str:
        """Rules for what is read from ``patients``, and what is written to ``open``."""
        # A brace begins a placeholder there.
        parameters = {
            name: value.replace("{", "{{").replace("}", "}}")
            for name, value in self.parameters.items()
        }
        rules = [
            {
                "name": f"rule-of-{container}",
                "when": {"method": methods, "container": container},
                "run": {"storlet": f"std:{self.name}", "parameters": parameters},
            }
            for methods, container in ((["GET", "COPY"], "patients"), ("PUT", "open"))
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


def put_slo(admin: Client, content: bytes) -> None:
    """``patients/large``: a large object of two segments with erasure coding."""
    assert admin.put("parts", b"", {"X-Storage-Policy": "ec21"}).status in (201, 202)
    half = len(content) // 2
    for name, part in (("a", content[:half]), ("b", content[half:])):
        assert admin.put(f"parts/{name}", part).status == 201
    manifest = json.dumps([{"path": "parts/a"}, {"path": "parts/b"}]).encode()
    answer = admin.put("patients/large", manifest, query="multipart-manifest=put")
    assert answer.status == 201, answer


NAMES = sorted(path.parent.name for path in LIBRARY.glob("*/storlet.toml"))
CASES = [case for name in NAMES if name not in EXCEPTED and (case := first_case(name)) is not None]


@pytest.fixture(scope="module")
def ward(users: dict[str, Client]) -> Ward:
    return make_ward(users)


def test_each_storlet_has_a_case() -> None:
    assert set(NAMES) - {case.name for case in CASES} == EXCEPTED


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_rule_runs_the_storlet(case: Case, ward: Ward) -> None:
    admin, uploaded, copied = ward.admin, f"open/{case.name}", "parts/copied"
    for name, value in case.secrets.items():
        answer = admin.request("POST", "", query=f"storlet-secrets={name}", body=value.encode())
        assert answer.status in (201, 204), answer
    assert admin.put("patients/input", case.input).status == 201
    put_slo(admin, case.input)
    ward.rule(case.rules())

    for path in ("patients/input", "patients/large"):
        answer = admin.get(path)
        assert (answer.status, answer.body) == (200, case.output), answer
    copy = admin.put(copied, b"", {"X-Copy-From": "patients/large"})
    assert copy.status == 201, copy
    assert admin.get(copied).body == case.output

    upload = admin.put(uploaded, case.input)
    if case.is_seekable:  # the body of a PUT is a stream
        assert upload.status == 400, upload
        assert admin.get(uploaded).status == 404
    else:
        assert upload.status == 201, upload
        assert admin.get(uploaded).body == case.output
