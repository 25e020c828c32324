"""One change at a time."""

from __future__ import annotations

import pytest
from swift.common.exceptions import MemcacheConnectionError

from storlet_middleware.errors import RulesConflict
from storlet_middleware.wsgi import change_lock
from tests.unit.middleware.support import Memcache

CONFLICT = RulesConflict("another")


def test_a_second_holder_is_refused_until_the_first_has_ended() -> None:
    environ = {"swift.cache": Memcache()}
    with change_lock.held(environ, "key", 9, CONFLICT):
        with pytest.raises(RulesConflict), change_lock.held(environ, "key", 9, CONFLICT):
            pass
        with change_lock.held(environ, "other", 9, CONFLICT):
            pass
    with change_lock.held(environ, "key", 9, CONFLICT):
        pass


def test_the_lock_ends_with_a_failure() -> None:
    environ = {"swift.cache": Memcache()}
    with pytest.raises(ValueError, match="x"), change_lock.held(environ, "key", 9, CONFLICT):
        raise ValueError("x")
    with change_lock.held(environ, "key", 9, CONFLICT):
        pass


class _Down(Memcache):
    def incr(self, key: str, time: int = 0) -> int:
        raise MemcacheConnectionError


@pytest.mark.parametrize("environ", [{}, {"swift.cache": _Down()}])
def test_without_memcached_there_is_no_lock(environ: dict[str, object]) -> None:
    with (
        change_lock.held(environ, "key", 9, CONFLICT),
        change_lock.held(environ, "key", 9, CONFLICT),
    ):
        pass
