"""Manifests: all faults at once, the normal form, parameters of a run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storlet_client.bundle import manifest
from storlet_middleware.engine import limits

GOOD: dict[str, Any] = {
    "name": "thumb",
    "version": "1.0",
    "language": "python",
    "main": "thumb.Thumb",
}


def test_valid_manifest_has_no_faults_and_its_normal_form_neither() -> None:
    assert manifest.faults_of(GOOD) == []
    assert manifest.faults_of(manifest.normal(GOOD)) == []
    assert manifest.normal(manifest.normal(GOOD)) == manifest.normal(GOOD)


def test_all_faults_come_at_once_and_unknown_keys_name_the_nearest() -> None:
    document = {**GOOD, "summry": "x", "version": 7, "limits": {"memry": "1M"}}
    document["parameters"] = {"width": {"type": "int"}, "storlet_x": {"type": "string"}}
    del document["main"]
    texts = [str(fault) for fault in manifest.faults_of(document)]
    for part in (
        "main: missing",
        "summry: unknown key; did you mean summary?",
        "version: 7: want string",
        "limits.memry: unknown key; did you mean memory?",
        "parameters.width.type: 'int': want one of string, integer",
        "parameters.storlet_x: not a name",
    ):
        assert any(part in text for text in texts), (part, texts)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"maven": ["a:b:1"]}, "maven: is of java storlets"),
        ({"language": "java", "requirements": ["a"]}, "requirements: is of python"),
        ({"main": "Thumb"}, "want module.Class"),
        ({"inputs": {"min": 2, "max": 1}}, "inputs.max: 1: less than"),
        ({"input": "seekble"}, "input: 'seekble': want one of seekable"),
        (
            {"language": "native", "main": "a", "files": ["a"], "input": "seekable"},
            "input: a program has no seekable inputs: use a shared object",
        ),
        (
            {"language": "native", "main": "a", "files": ["a"], "ranges": True},
            "ranges: a program has no seekable inputs: use a shared object",
        ),
        ({"ranges": "true"}, "ranges: 'true': want boolean"),
        ({"records": "failure"}, "records: 'failure': want one of all, failures, none"),
        ({"outputs": {"count": 31}}, "outputs.count: 31: more than 30"),
        ({"outputs": {"count": 3, "max": 2}}, "outputs.max: 2: less than outputs.count"),
        (
            {"inputs": {"min": 2}, "outputs": {"count": 29}, "services": ["read"]},
            "outputs.count: 29: with the inputs and services, 1 too many",
        ),
        ({"outputs": {"types": ["a/b", "c/d"]}}, "outputs.types: 2 types: of 1 outputs"),
        (
            {"tests": [{"name": "a", "input": "i", "output": ["x", "y"]}]},
            "tests.0.output: 2 files: of 1 outputs",
        ),
        ({"engine": "~1"}, "engine: '~1': want"),
        ({"parameters": {"a": {"type": "integer", "default": 9, "max": 3}}}, "more than 3"),
        ({"parameters": {"a": {"type": "integer", "default": True}}}, "is no integer"),
        ({"parameters": {"a": {"type": "string", "min": 1}}}, "a string has no min"),
        ({"parameters": {"a": {"type": "string", "choices": [1]}}}, "is no string"),
        ({"parameters": {"a": {"type": "number", "min": 2, "max": 1}}}, "less than min"),
        (
            {"parameters": {"a": {"type": "string", "default": "x", "required": True}}},
            "is not required",
        ),
    ],
)
def test_faults_between_fields(change: dict[str, Any], part: str) -> None:
    assert any(part in str(fault) for fault in manifest.faults_of({**GOOD, **change}))


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"requirements": ["((("]}, "'(((': want a requirement of pip such as 'numpy>=2,<3'"),
        ({"maven": ["gson"]}, "'gson': want a library as group:artifact:version"),
        ({"files": ["../a"]}, "want a path within the project"),
        ({"arguments": ["\0"]}, "want a text without NUL"),
        ({"inputs": {"types": ["csv"]}}, "want a content type such as text/csv, or image/*"),
        ({"outputs": {"types": ["image/*"]}}, "want a content type such as text/csv"),
    ],
)
def test_a_fault_of_an_item_has_words_and_no_pattern(change: dict[str, Any], wanted: str) -> None:
    faults = [fault.text for fault in manifest.faults_of({**GOOD, **change})]
    assert any(wanted in text for text in faults), faults
    assert not any("^" in text for text in faults)


def test_a_manifest_has_up_to_thirty_outputs() -> None:
    case = {"name": "a", "input": "i", "output": ["x", "y"]}
    several = {**GOOD, "outputs": {"count": 2, "max": 30, "types": ["a/b", "c/d"]}, "tests": [case]}
    assert manifest.faults_of(several) == []
    assert manifest.normal(several)["outputs"] == several["outputs"]
    assert manifest.faults_of({**GOOD, "outputs": {"count": 30}}) == []
    assert manifest.normal(GOOD)["outputs"] == {"count": 1, "types": []}
    assert manifest.output_counts({"outputs": {"max": 4}}) == (1, 4)
    assert manifest.files_at_upload(several) == ["i", "x", "y"]
    assert manifest.output_count_of(several, {**case, "output": "x"}) == 2
    assert manifest.faults_of_count((2, 2), 1, "outputs") == [
        "1 outputs: the storlet makes 2 (outputs of its manifest)"
    ]


def test_a_fault_of_the_schema_hides_no_fault_between_fields() -> None:
    document = {
        **GOOD,
        "colour": 1,
        "maven": ["a:b:1"],
        "inputs": {"min": 2, "max": 1},
        "outputs": {"count": "two", "types": ["a/b", "c/d"]},
        "parameters": {
            "a": {"type": "int", "default": 1},
            "b": {"type": "integer", "default": "x"},
        },
        "secrets": ["key"],
        "tests": [
            {"name": 7, "input": "i", "output": ["x", "y"]},
            {"name": "b", "input": "i", "secrets": {"key": "short"}},
        ],
    }
    assert [str(fault).partition(":")[0] for fault in manifest.faults_of(document)] == [
        "colour", "inputs.max", "maven", "outputs.count", "parameters.a.type",
        "parameters.b.default", "tests.0.name",
    ]  # fmt: skip
    del document["parameters"]
    texts = [str(fault) for fault in manifest.faults_of(document)]
    assert "tests.1.secrets.key: want 8 to 4096 bytes" in texts


@pytest.mark.parametrize("document", [7, [], {}, {"parameters": [1], "tests": {"a": 1}}])
def test_any_document_has_faults_and_no_more(document: Any) -> None:
    assert manifest.faults_of(document)


#: Values of limits, and whether the server reads them, by the form of the limit.
_VALUES: dict[str, dict[Any, bool]] = {
    "memory": {
        "64M": True, "1.5 GiB": True, 65536: True, 1.5: True, "a lot": False, "-1": False,
        "64X": False, "": False,
    },
    "timeout-idle": {"30": True, "500ms": True, "1 h": True, 2.5: True, "30d": False, "x": False},
    "processes": {"9": True, 9: True, 1.5: False, "9K": False},
    "cpu": {"0.5": True, 2: True, "half": False, "12345": False},
}  # fmt: skip


def test_limits_are_those_of_the_server() -> None:
    known = manifest.schema()["properties"]["limits"]["properties"]
    assert sorted(known) == sorted(row.name.lower() for row in limits.TABLE)
    forms = {name: row["$ref"].rpartition("/")[2] for name, row in known.items()}
    by_form = {forms[name]: values for name, values in _VALUES.items()}
    for row in limits.TABLE:
        name = row.name.lower()
        for value, is_read in by_form[forms[name]].items():
            faults = manifest.faults_of({**GOOD, "limits": {name: value}})
            assert (not faults) is is_read is _is_read(row, value), (name, value)


def _is_read(row: limits.Row, value: Any) -> bool:
    try:
        row.form.read(manifest.text_of(value))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("wanted", "version", "fits"),
    [
        (">=1.0,<2", "1.0", True),
        (">=1.0,<2", "2.0", False),
        (">1", "1.0", False),
        ("==1.2", "1.2.0", True),
        ("!=1.2, <= 1.3", "1.3", True),
    ],
)
def test_engine_range(wanted: str, version: str, fits: bool) -> None:
    assert manifest.fits_engine(wanted, version) is fits


DECLARED: dict[str, dict[str, Any]] = {
    "width": {"type": "integer", "default": 100, "min": 1, "max": 4096},
    "format": {"type": "string", "choices": ["png", "jpeg"]},
    "scale": {"type": "number", "required": True},
    "strict": {"type": "boolean", "default": False},
}


def test_defaults_are_filled_in() -> None:
    values, faults = manifest.parameters_of_run(DECLARED, {"scale": "0.5"})
    assert (values, faults) == ({"width": "100", "scale": "0.5", "strict": "false"}, [])


def test_all_faults_of_parameters_come_at_once() -> None:
    given_values = {"wdth": "1", "width": "0", "format": "gif", "strict": "maybe"}
    _, faults = manifest.parameters_of_run(DECLARED, given_values)
    text = "; ".join(faults)
    for part in (
        "'wdth': unknown: the storlet has width, format, scale, strict; did you mean width?",
        "'width': '0': less than 1",
        "'format': 'gif': want one of png, jpeg",
        "'strict': 'maybe': want true or false",
        "'scale': missing",
    ):
        assert part in text


def test_a_manifest_without_parameters_accepts_all() -> None:
    assert manifest.parameters_of_run({}, {"a": "b"}) == ({"a": "b"}, [])


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_fault(text: str) -> None:
    for name in DECLARED:
        values, faults = manifest.parameters_of_run(DECLARED, {"scale": "1", name: text})
        assert faults or values[name] == text


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)


@given(st.sampled_from(sorted(manifest.schema()["properties"])), _JSON)
def test_any_value_of_a_field_gives_faults_or_a_normal_form(key: str, value: Any) -> None:
    document = {**GOOD, key: value}
    if not manifest.faults_of(document):
        assert manifest.faults_of(manifest.normal(document)) == []


KEY = {"key": {"type": "secret", "required": True, "help": "h"}}


def test_a_case_has_the_secrets_that_its_run_would_have() -> None:
    case = {"name": "a", "input": "a", "parameters": {"key": "backup-key"}}
    case |= {"secrets": {"backup-key": "of a test", "api-token": "שלום"}}
    document = {**GOOD, "secrets": ["api-token"], "parameters": KEY, "tests": [case]}
    assert manifest.faults_of(document) == []
    expected = {"backup-key": b"of a test", "api-token": "שלום".encode()}
    assert manifest.secrets_of(case) == expected
    assert manifest.secrets_of({"name": "a", "input": "a"}) == {}


def test_all_languages_have_secrets() -> None:
    for language, main in (("java", "org.example.Up"), ("native", "up")):
        document = {**GOOD, "language": language, "main": main, "secrets": ["a"]}
        document |= {"files": ["up"], "parameters": KEY} if language == "native" else {}
        assert not [fault for fault in manifest.faults_of(document) if "secret" in str(fault)]


def test_a_manifest_names_secrets_and_parameters_that_name_one() -> None:
    document = {**GOOD, "secrets": ["api-token"], "parameters": KEY}
    assert manifest.faults_of(document) == []
    values, faults = manifest.parameters_of_run(KEY, {"key": "backup-key"})
    assert (values, faults) == ({"key": "backup-key"}, [])
    assert manifest.secrets_named({**KEY, "text": {"type": "string"}}, {**values, "text": "x"}) == [
        "backup-key"
    ]
    _, faults = manifest.parameters_of_run(KEY, {"key": "Backup_Key"})
    expected = "a lower-case letter, then a-z, 0-9 and '-'"
    assert faults == [f"parameter 'key': 'Backup_Key': want the name of a secret: {expected}"]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"secrets": ["A"]}, "secrets.0: 'A': want a lower-case letter"),
        ({"secrets": list("abcdefghi")}, "more than 8 items"),
        ({"secrets": ["a", "a"]}, "has an item twice"),
        (
            {"tests": [{"name": "a", "input": "a", "secrets": {"b": "12345678"}}]},
            "tests.0.secrets.b: is in neither secrets nor a parameter of the type secret",
        ),
        (
            {"secrets": ["b"], "tests": [{"name": "a", "input": "a", "secrets": {"b": "short"}}]},
            "tests.0.secrets.b: want 8 to 4096 bytes",
        ),
        ({"parameters": {"k": {"type": "secret", "default": "A"}}}, "want the name of a secret"),
    ],
)
def test_a_wrong_secret_of_a_manifest_is_named(change: dict[str, Any], part: str) -> None:
    texts = [str(fault) for fault in manifest.faults_of({**GOOD, **change})]
    assert any(part in text for text in texts), texts
