"""The database that parts of queries share: nothing of one run is left for the next one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.library import test_sql as sql
from tests.library.support import shared

KEPT: Any = shared("kept_database")
#: Settings that each session of a run has.
_SETTINGS = {
    "enable_external_access": False,
    "lock_configuration": True,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "python_enable_replacements": False,
    "enable_external_file_cache": False,
    "enable_progress_bar": False,
    "temp_directory": "",
    "threads": 1,
    "TimeZone": "UTC",
}
QUERY = "SELECT k, count(*) AS n, max(v) AS m FROM input WHERE k <> 'x' GROUP BY k ORDER BY k"
OBJECTS = [
    b"k,v\na,1\nb,2\na,3\n",
    b"k,v\na,1.5\nx,2\n",
    b"v;k\n1;a\n",
    b"k,v\r\na,1\r\n",
    b'k,v\n"a\nb",1\n',
    b"k,v\na,1,2\n",
    b"k,w\na,1\n",
    b"k,v\n",
    b"",
    b"k,v\n" + b"a,1\nx,2\n" * 4000 + b"a,no\n",
]


@pytest.fixture(autouse=True)
def none_is_left(leftovers: None) -> None:
    """Each test begins without a kept database, and ends without descriptors."""


def part(data: bytes, query: str = QUERY, **given: str) -> Any:
    """The part of a query for an object, or the error."""
    values = {"query": query, "output": "partial", **given}
    try:
        return sql.STORLET.run(data, values).output
    except sql.ERROR as error:
        return str(error)


def alone(data: bytes, query: str = QUERY, **given: str) -> Any:
    """The same with a database that no earlier run has used."""
    KEPT.close_idle()
    return part(data, query, **given)


@cache
def expected(data: bytes, is_other: bool, name: str) -> Any:
    """The part of an object alone, which is the same each time."""
    return alone(data, of(name), **delimiter(is_other))


def of(name: str) -> str:
    """The query for the column ``name``."""
    return QUERY.replace("max(v)", f"max({name})")


def delimiter(is_other: bool) -> dict[str, str]:
    return {"delimiter": ";"} if is_other else {}


def kept() -> list[Any]:
    return list(KEPT._idle)


@given(st.lists(st.tuples(st.sampled_from(OBJECTS), st.booleans(), st.booleans()), max_size=6))
def test_parts_are_those_of_a_database_of_their_own(runs: list[tuple[bytes, bool, bool]]) -> None:
    given_ = [(data, is_other, "v" if is_text else "k") for data, is_other, is_text in runs]
    wanted = [expected(*each) for each in given_]
    KEPT.close_idle()
    found = [part(data, of(name), **delimiter(is_other)) for data, is_other, name in given_]
    assert found == wanted


def test_a_database_serves_runs_until_one_fails() -> None:
    assert isinstance(part(OBJECTS[0]), bytes)
    first = kept()
    assert len(first) == 1
    assert isinstance(part(OBJECTS[1]), bytes)
    assert kept() == first
    assert "cannot" in part(OBJECTS[6]) or "not found" in part(OBJECTS[6])
    assert kept() == []
    part(OBJECTS[0])
    assert kept() != first


def test_a_database_ends_after_some_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KEPT, "MOST_RUNS", 2)
    found = []
    for _ in range(4):
        part(OBJECTS[0])
        found += kept()
    assert found[0] is found[1]
    assert found[1] is not found[2]


def test_another_bound_of_memory_has_another_database() -> None:
    part(OBJECTS[0])
    first = kept()
    part(OBJECTS[0], **{"memory-mib": "100"})
    assert kept() != first
    assert kept()[0].memory_mib == 100


def test_only_parts_use_it() -> None:
    sql.output(OBJECTS[0], QUERY)
    assert kept() == []


def test_a_part_of_json_starts_none() -> None:
    assert isinstance(part(b'{"k":"a","v":1}\n', format="jsonl"), bytes)
    assert kept() == []


@pytest.mark.parametrize(
    ("expression", "is_allowed"),
    [
        ("upper(k)", True),
        ("k LIKE 'a%'", True),
        ("sum(v) + count(*) % 3", True),
        ("CASE WHEN k IN ('a') THEN 1 END", True),
        ("k || 'x'", True),
        ("regexp_replace(k, 'a', 'b')", True),
        ("random()", False),
        ("setseed(0.5)", False),
        ("k || UUID()", False),
        ("txid_current()", False),
        ("current_connection_id()", False),
        ("current_query_id()", False),
        ("current_transaction_id()", False),
        ("now()", False),
        ("version()", False),
        ("main.upper(k)", False),
        ("unknown(k)", False),
    ],
)
def test_queries_whose_functions_depend_on_their_arguments(
    expression: str, is_allowed: bool
) -> None:
    with KEPT.opened(sql.ENGINE, 64) as database, sql.ENGINE(64, database=database) as engine:
        query = engine.syntax.checked(f"SELECT max({expression}) FROM input WHERE k = 'a'")  # noqa: S608
        assert database.allows(engine, query) is is_allowed


def test_a_query_that_may_not_use_it_has_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    monkeypatch.setattr(KEPT.Database, "require", lambda *_: used.append(1))
    query = "SELECT k, txid_current() AS t FROM input ORDER BY k"
    assert isinstance(part(OBJECTS[0], query), bytes)
    assert used == []
    assert part(b'k,v\n"a\nb",1\n', "SELECT k FROM input ORDER BY k").endswith(b'"a\nb"\n')
    assert used == []
    part(OBJECTS[0])
    assert used == [1]


def test_files_have_no_content_between_runs() -> None:
    part(OBJECTS[0])
    [database] = kept()
    for path in database.place.paths():
        assert str(Path(path).readlink()).startswith("/memfd:nothing")
        assert Path(path).read_bytes() == b""
        with pytest.raises(PermissionError):
            Path(path).write_bytes(b"x")


def test_a_session_sees_nothing_of_another_one() -> None:
    part(OBJECTS[0])
    with KEPT.opened(sql.ENGINE, 192) as database, sql.ENGINE(192, database=database) as engine:
        for statement in ("FROM input", "SELECT getvariable('x')"):
            with suppress(sql.ERROR):
                assert engine.rows(statement) == [(None,)]
        tables = "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal"
        assert engine.rows(tables) == []
        for name, value in _SETTINGS.items():
            assert engine.rows(f"SELECT current_setting('{name}')") == [(value,)], name


@pytest.fixture(scope="module")
def used() -> Iterator[Any]:
    """A session of a database that has served runs.  It changes with no statement that is refused,
    so all of them share it.
    """
    KEPT.close_idle()
    for data in OBJECTS[:2]:
        assert isinstance(part(data), bytes)
    [database] = kept()
    with KEPT.opened(sql.ENGINE, 192) as again, sql.ENGINE(192, database=again) as engine:
        assert again is database
        yield engine
    KEPT.close_idle()


@pytest.mark.parametrize("statement", sql.FOR_THE_ENGINE)
def test_a_used_database_refuses_it_without_the_check(
    used: Any, statement: str, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("secret\n1\n")
    with pytest.raises(duckdb.Error):
        used._connection.execute(statement.replace("/tmp", str(tmp_path))).fetchall()
    assert not list(tmp_path.glob("sql-hostile*"))


@pytest.mark.parametrize("query", sql.HOSTILE)
def test_a_hostile_query_is_refused_after_other_runs(query: str, tmp_path: Path) -> None:
    part(OBJECTS[0])
    assert isinstance(part(OBJECTS[0], query.replace("/tmp", str(tmp_path))), str)
    assert not list(tmp_path.glob("sql-hostile*"))
    assert kept() == []


def test_a_kept_database_has_no_thread() -> None:
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir()))
    part(OBJECTS[0])
    assert kept()
    until = time.monotonic() + 10
    # A thread that was joined ends some time later.
    while len(list(tasks.iterdir())) > before:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_an_object_may_be_larger_than_its_memory() -> None:
    count = 6_000_000
    data = b"k,v\n" + b"abcdefghij,1\n" * count
    assert b'"abcdefghij","%d"' % count in part(data, **{"memory-mib": "64"})
    assert kept()[0].memory_mib == 64
