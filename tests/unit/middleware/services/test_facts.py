"""The facts about an object that a storlet gets."""

from __future__ import annotations

from swift.common.header_key_dict import HeaderKeyDict

from storlet_daemon.protocol.messages import Facts
from storlet_middleware.services.facts import etag_of, facts_of
from storlet_middleware.services.requests import StoreAnswer


def answer(**headers: str) -> StoreAnswer:
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    return StoreAnswer(200, HeaderKeyDict(given), [], {})


def test_facts_are_those_of_the_answer() -> None:
    given = answer(
        Content_Length="5", Etag='"e"', Content_Type="text/x", X_Object_Meta_Colour="red"
    )
    assert facts_of(given) == Facts({"Colour": "red"}, 5, "e", "text/x")
    assert etag_of(given) == "e"


def test_a_fact_that_is_not_in_the_answer_is_not_known() -> None:
    assert facts_of(answer()) == Facts()
    assert facts_of(answer(Content_Length="5", X_Storlet_Ran_On="object")) == Facts()
    assert not etag_of(answer())
