"""``python -m tests.bench.own_proxy CONF_DIR``: a cluster's proxy as a function, whose filter asks
the rules or does not, as told.

One percent is less than what two equal processes differ by, because their memory lies differently,
and than what a network adds to each request.  So this is one process with the whole pipeline of the
cluster's proxy server, before the same memcached and storage servers, without a server of its own.
Each line of input is a request, answered with the milliseconds that it took, by the clock and of
the CPU::

    {"path": "/v1/AUTH_a/bench/small", "headers": {"X-Auth-Token": "..."}, "asks": true}
    2.345 1.234
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

#: What the filter needs of its rules when it is not to ask any.
_NO_RULES: Final = SimpleNamespace(
    handler=lambda _environ, _place, default: default, refusal_of=lambda _: None
)


def serve(conf_dir: str) -> None:
    """Until standard input ends."""
    app, ask_rules = _pipeline(conf_dir)
    print("ready", flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        ask_rules(wanted["asks"])
        passed, used = _milliseconds(app, wanted["path"], wanted["headers"])
        print(f"{passed:.4f} {used:.4f}", flush=True)


def _pipeline(conf_dir: str) -> tuple[Any, Callable[[bool], None]]:
    # Before anything that reads swift.conf when it is imported.
    from storlet_middleware.aio.serve import use  # noqa: PLC0415

    use(conf_dir)
    from swift.common import utils, wsgi  # noqa: PLC0415

    from storlet_middleware.filter import ProxyFilter  # noqa: PLC0415

    utils.eventlet_monkey_patch()
    utils.validate_configuration()
    app = wsgi.loadapp(f"{conf_dir}/proxy-server.conf", global_conf={"log_name": "bench"})
    layer = app
    while not isinstance(layer, ProxyFilter):
        layer = layer.app
    ours: Any = layer
    rules = ours._rules

    def ask_rules(asks: bool) -> None:
        ours._rules = rules if asks else _NO_RULES

    return app, ask_rules


def _milliseconds(app: Any, path: str, headers: dict[str, str]) -> tuple[float, float]:
    from swift.common.swob import Request  # noqa: PLC0415 - see above

    request = Request.blank(path, headers=headers, environ={"REMOTE_ADDR": "127.0.0.1"})
    began, began_cpu = time.perf_counter(), time.process_time()
    response = request.get_response(app)
    size = len(response.body)
    ended, ended_cpu = time.perf_counter(), time.process_time()
    if response.status_int != 200:
        raise RuntimeError(f"GET {path}: {response.status} {response.body[:300]!r} ({size} bytes)")
    return (ended - began) * 1000, (ended_cpu - began_cpu) * 1000


if __name__ == "__main__":
    serve(sys.argv[1])
