"""Examples of requests: what is written is what is read."""

from __future__ import annotations

import ipaddress
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules import example
from rules.conditions import METHODS
from rules.example import ExampleError, describe, read, read_words, show, to_mapping
from rules.facts import Caller, ContainerFacts, Facts, ObjectFacts
from rules.model import All, Any, Not, Operator, Test

_TEXTS = st.text(alphabet="aB=%.'\" é/\n", max_size=5)
_KEYS = st.text(alphabet="ab=%.' é", min_size=1, max_size=5)


@st.composite
def requests(draw: st.DrawFn) -> Facts:
    name = draw(st.none() | _TEXTS)
    stored = ObjectFacts(
        name is not None,
        draw(st.none() | st.sampled_from(["text/csv", "Text/CSV; charset=utf-8"])),
        draw(st.none() | st.integers(0, 1 << 50)),
        draw(st.dictionaries(_KEYS, _TEXTS, max_size=2)),
    )
    if name is None:  # a request without an object has no object's facts
        stored = ObjectFacts()
    return Facts(
        method=draw(st.sampled_from(METHODS)),
        container="c" if name is not None else None,
        object=name,
        caller=Caller(
            draw(st.none() | _TEXTS),
            draw(st.none() | _TEXTS),
            None,
            draw(st.frozensets(_TEXTS, max_size=2)),
            is_anonymous=draw(st.booleans()),
        ),
        headers=draw(st.dictionaries(_KEYS, _TEXTS, max_size=2)),
        query=draw(st.dictionaries(st.sampled_from(["Q", "q"]), _TEXTS, max_size=2)),
        client_address=draw(st.none() | st.sampled_from(["10.0.0.1", "2001:db8::1"])),
        minute_of_week=draw(st.none() | st.integers(0, 7 * 24 * 60 - 1)),
        stored=stored,
        holder=ContainerFacts(
            draw(st.dictionaries(_KEYS, _TEXTS, max_size=2)), draw(st.none() | _TEXTS)
        )
        if name is not None
        else ContainerFacts(),
    )


@given(requests())
def test_a_written_explanation_reads_back(facts: Facts) -> None:
    assert read_words(shlex.split(describe(facts))) == facts
    assert read(to_mapping(facts)) == facts


def test_unknown_facts_are_left_out() -> None:
    assert describe(Facts("GET", "c", "o")) == "method=GET container=c object=o"


def test_an_example_reads_like_this() -> None:
    facts = read(
        {
            "method": "COPY",
            "container": "patients-7",
            "object": "a b.csv",
            "size": "2K",
            "metadata": {"Classification": "secret"},
            "header.X-Purpose": "export",
            "roles": ["nurse", "intern"],
            "time": "mon 22:05",
            "anonymous": True,
        }
    )
    assert describe(facts) == (
        "method=COPY container=patients-7 'object=a b.csv' size=2048 metadata.classification=secret "
        "header.x-purpose=export 'time=mon 22:05' roles=intern roles=nurse anonymous=true"
    )


@pytest.mark.parametrize(
    ("mapping", "fault"),
    [
        ({"methods": "GET"}, "unknown fact 'methods'; did you mean 'method'?"),
        ({"method": "OPTIONS"}, "method must be one of GET, HEAD, PUT, POST, COPY, DELETE"),
        ({"container.x": "a"}, "unknown fact 'container.x'; did you mean 'container'?"),
        ({"container": 7}, "container must be a string; quote it"),
        ({"metadata": "x"}, "metadata requires the name of an entry: metadata.NAME"),
        ({"metadata": {"x": 1}}, "metadata.x must be a string; quote it"),
        ({7: "x"}, "unknown fact 7"),
        ({"size": "2X"}, "size must be a number of bytes, such as 2048 or 2K"),
        ({"size": True}, "size must be a number of bytes, such as 2048 or 2K"),
        ({"roles": [1]}, "roles must be a string or a list of strings"),
        ({"client-address": "localhost"}, "client-address must be an IPv4 or IPv6 address"),
        ({"time": "22:00"}, "time must be a day and a time in UTC, such as 'mon 22:05'"),
        ({"time": "mon 24:00"}, "time must be a day and a time in UTC, such as 'mon 22:05'"),
        ({"signed": "yes"}, "signed must be true or false"),
        ({"signed": 1}, "signed must be true or false"),
    ],
)
def test_faults_state_the_expected_value(mapping: dict[str, object], fault: str) -> None:
    with pytest.raises(ExampleError) as raised:
        read(mapping)
    assert raised.value.faults == (fault,)


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(ExampleError) as raised:
        read({"size": "x", "time": "x", "none": "x"})
    assert len(raised.value.faults) == 3
    with pytest.raises(ExampleError) as raised:
        read_words(["container", "user=a", "user=b"])
    assert raised.value.faults == ("'container' is not name=value", "user is given twice")


def test_conditions_are_shown_as_they_are_written() -> None:
    night = Test("time", Operator.WITHIN, ((1320, 1439),))
    office = Test("client-address", Operator.WITHIN, (ipaddress.ip_network("10.0.0.0/8"),))
    secret = Test("metadata", Operator.EXACT, "secret", "classification")
    assert show(Any((night, All((Not(office), secret))))) == (
        f"any (time: {example.wanted(night)}; all (not (client-address: within 10.0.0.0/8); metadata.classification: 'secret'))"
    )


def test_facts_of_an_object_or_container_need_its_name() -> None:
    with pytest.raises(ExampleError) as raised:
        read({"content-type": "text/csv", "metadata": {"k": "v"}, "policy": "gold", "size": "1K"})
    assert raised.value.faults == (
        "content-type requires object: name the object as well",
        "size requires object: name the object as well",
        "metadata requires object: name the object as well",
        "policy requires container: name the container as well",
    )
    with pytest.raises(ExampleError, match="object requires container"):
        read({"object": "a"})


def test_the_largest_size_of_a_rule_is_read_back() -> None:
    facts = Facts(
        "PUT",
        "c",
        "o",
        stored=ObjectFacts(exists=True, size_bytes=(10**15 - 1) << 40),
        holder=ContainerFacts(),
    )
    assert read_words(shlex.split(describe(facts))) == facts
