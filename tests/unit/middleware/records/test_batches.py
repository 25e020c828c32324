"""The objects that hold records."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from storlet_middleware.records.batches import (
    SPAN_SECONDS,
    batches_of,
    key_of_name,
    name_at,
    name_of_key,
)
from tests.unit.middleware.records.made import ACCOUNT_PATH, NOON, record

seconds = st.floats(0, 60, allow_nan=False).map(lambda value: NOON + round(value, 6))


@given(st.lists(seconds, min_size=1, max_size=30))
def test_each_record_is_in_one_object_whose_name_is_at_most_the_span_later(
    times: list[float],
) -> None:
    records = [record(number, time) for number, time in enumerate(times)]
    batches = list(batches_of(ACCOUNT_PATH, records))
    kept = [each.id for batch in batches for each in batch.records]
    assert sorted(kept) == sorted(each.id for each in records)
    assert len({batch.name for batch in batches}) == len(batches)
    for batch in batches:
        assert key_of_name(batch.name) is not None
        for each in batch.records:
            assert name_at(each.time) <= batch.name
            assert batch.name < name_at(each.time + SPAN_SECONDS + 1e-5) + "~"


def test_an_object_has_a_line_for_each_record_in_the_order_of_time() -> None:
    (batch,) = batches_of(ACCOUNT_PATH, [record(2, NOON + 1), record(1, NOON)])
    lines = [json.loads(line) for line in batch.body().splitlines()]
    assert [line["id"] for line in lines] == [record(1).id, record(2, NOON + 1).id]
    assert batch.name.startswith(".runs/20261123T190001.000000Z-")
    assert batch.size_bytes > 2000


def test_names_of_other_objects_have_no_key() -> None:
    key = "20261123T190001.000000Z-0123456789ab"
    assert key_of_name(name_of_key(key)) == key
    for name in ("up.py/tx.log", ".runs/", f".runs/{key}", f"x/{key}.jsonl", f"{key}.jsonl"):
        assert key_of_name(name) is None


def test_records_of_one_moment_that_are_large_together_are_several_objects() -> None:
    records = [record(number, NOON, log="\x01" * 4096) for number in range(600)]
    batches = list(batches_of(ACCOUNT_PATH, records))
    assert sum(len(batch.records) for batch in batches) == 600
    assert len(batches) == 4
    assert max(len(batch.body()) for batch in batches) < 16 << 20
