"""``python -m tests.bench.own_proxy CONF_DIR``: a cluster's proxy as a function, with the
evaluation of rules switched on or off by each request.

One percent is less than the difference between two equal processes, which comes from their memory
layout, and less than the network's share of each request.  So this is one process with the whole
pipeline of the cluster's proxy server, in front of the same memcached and storage servers, without
a listening socket. Each line of input is a request; each line of output its milliseconds of wall
and CPU time::

    {"path": "/v1/AUTH_a/bench/small", "headers": {"X-Auth-Token": "..."}, "asks": true}
    2.345 1.234
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


def serve(conf_dir: str) -> None:
    """Serve until standard input ends."""
    app, switch_rules = _pipeline(conf_dir)
    print("ready", flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        switch_rules(wanted["asks"])
        passed, used = _milliseconds(app, wanted["path"], wanted["headers"])
        print(f"{passed:.4f} {used:.4f}", flush=True)


def _pipeline(conf_dir: str) -> tuple[Any, Callable[[bool], None]]:
    # Set before the import of modules that read swift.conf when imported.
    from storlet_middleware.aio.serve import use  # noqa: PLC0415

    use(conf_dir)
    from swift.common import utils, wsgi  # noqa: PLC0415

    from storlet_middleware.enforcement.ruling import PassOn  # noqa: PLC0415
    from storlet_middleware.filter import ProxyFilter  # noqa: PLC0415

    utils.eventlet_monkey_patch()
    utils.validate_configuration()
    app = wsgi.loadapp(f"{conf_dir}/proxy-server.conf", global_conf={"log_name": "bench"})
    layer = app
    while not isinstance(layer, ProxyFilter):
        layer = getattr(layer, "app", None) or layer._app
    ours: Any = layer
    enforcement = ours._enforcement
    passing = SimpleNamespace(decide=lambda _environ, _operation: PassOn())

    def switch_rules(asks: bool) -> None:
        ours._enforcement = enforcement if asks else passing

    return app, switch_rules


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
