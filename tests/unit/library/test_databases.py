"""Databases that tests share: a run has what a new database would give it, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from tests.unit.library.databases import Databases

CONFIG = {"threads": "2", "memory_limit": "64MiB"}


@pytest.fixture
def made() -> Iterator[Databases]:
    databases = Databases()
    yield databases
    databases.close()


def kept(databases: Databases) -> list[Any]:
    return [database for _, database in databases._idle]


def closed_in(databases: Databases, *paths: str) -> Any:
    session = databases.connect(config=CONFIG)
    session.execute(f"SET allowed_paths = {list(paths)}")
    session.execute("SET enable_external_access = false")
    session.execute("SET lock_configuration = true")
    return session


def test_nothing_of_a_run_is_left(made: Databases) -> None:
    first = made.connect(config=CONFIG)
    first.execute("SET threads = 1")
    first.execute('CREATE OR REPLACE TEMPORARY VIEW "input" AS SELECT 1 AS a')
    first.execute('CREATE TABLE "rows" AS SELECT 1 AS a')
    first.execute('CREATE VIEW "more rows" AS SELECT 1 AS a')
    first.execute("CREATE MACRO twice(a) AS 2 * a")
    first.close()
    (database,) = kept(made)
    second = made.connect(config=CONFIG)
    assert second.execute("SELECT current_setting('threads')").fetchall() == [(2,)]
    for query in ("FROM input", "FROM rows", 'FROM "more rows"', "SELECT twice(1)"):
        with pytest.raises(duckdb.CatalogException):
            second.execute(query)
    second.close()
    assert kept(made) == [database]


@pytest.mark.parametrize(
    "statement",
    ["SELECT error('x')", "SET preserve_insertion_order = false", "CREATE SCHEMA s"],
)
def test_a_failure_or_another_change_ends_the_database(made: Databases, statement: str) -> None:
    session = made.connect(config=CONFIG)
    if "error" in statement:
        with pytest.raises(duckdb.Error):
            session.execute(statement).fetchall()
    else:
        session.execute(statement)
    session.close()
    assert kept(made) == []


def test_other_settings_have_another_database(made: Databases) -> None:
    made.connect(config=CONFIG).close()
    made.connect(config={**CONFIG, "threads": "1"}).close()
    assert len(kept(made)) == 2


def test_it_is_closed_in(made: Databases) -> None:
    session = closed_in(made, "/proc/self/fd/0")
    with pytest.raises(duckdb.PermissionException):
        session.execute("SELECT * FROM read_text('/etc/passwd')")
    with pytest.raises(AssertionError):
        session.execute("SET threads = 1")
    session.close()


def test_only_descriptors_and_the_object_can_be_allowed(made: Databases) -> None:
    session = made.connect(config=CONFIG)
    with pytest.raises(duckdb.InvalidInputException):
        session.execute("SET allowed_paths = ['/etc/passwd']")
    session.close()
