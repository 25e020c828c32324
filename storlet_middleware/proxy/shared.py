"""Objects shared by all requests of a proxy process, and the limit of concurrent runs."""

from __future__ import annotations

from typing import Any, Final

from storlet_middleware.account_secrets.sealing import Sealing, read_keys
from storlet_middleware.account_secrets.store import SecretStore
from storlet_middleware.admission.controller import ROOM
from storlet_middleware.catalog.storlets import Catalog
from storlet_middleware.config import Config
from storlet_middleware.engine.launcher import Launcher
from storlet_middleware.errors import NodeBusy, TenantBusy
from storlet_middleware.proxy.buffers import Buffers
from storlet_middleware.proxy.circuit_breaker import CircuitBreaker
from storlet_middleware.proxy.openings import Openings
from storlet_middleware.proxy.reports import Reports
from storlet_middleware.recon import DEFAULT_DIRECTORY, ReconCache
from storlet_middleware.records.lines import LogLines
from storlet_middleware.records.protection import Protection
from storlet_middleware.records.writer import Writer

#: This fraction of a process's runs is reserved for accounts without a run.
_RESERVED_FRACTION: Final = 8


class Proxy:
    """The filter's part at a proxy server.

    :param app: the rest of the pipeline.
    :param client_timeout_seconds: idle deadline of a client that sends a body.
    :param max_runs: maximum number of concurrent runs in this process, independent of their
        placement: each occupies one of its requests.
    :param recon_directory: Swift's ``recon_cache_path``.
    """

    def __init__(
        self,
        app: Any,
        config: Config,
        logger: Any,
        client_timeout_seconds: float,
        max_runs: int = ROOM,
        recon_directory: str = DEFAULT_DIRECTORY,
    ) -> None:
        self.app = app
        #: Where the requests of storlets enter; the filter puts itself here.
        self.front = app
        self.config = config
        self.logger = logger
        self.client_timeout_seconds = client_timeout_seconds
        self.catalog = Catalog(app, config)
        self.launcher = Launcher(config, logger, max_runs)
        recon = ReconCache(recon_directory, logger)
        self.reports = Reports(logger)
        self.records = Writer(app, config, logger)
        self.log_lines = LogLines(app, config, logger)
        self.secrets = SecretStore(app, Sealing(read_keys(config.secrets.key_file)))
        self.protection = Protection(config.storlet.log_container)
        self.nodes = CircuitBreaker(config.placement.unable_seconds, logger, recon)
        invocation = config.invocation
        self.buffers = Buffers(invocation.buffer_bytes_per_tenant, invocation.buffer_bytes)
        self.openings = Openings()
        self._max_runs = max_runs
        self._inflight: dict[str, int] = {}

    def acquire(self, account: str) -> None:
        """Count a run of ``account`` against the limits.

        :raises TenantBusy: the account has its maximum of runs through this process.
        :raises NodeBusy: the process has its maximum.
        """
        limit = self.config.invocation.max_inflight_per_tenant
        own = self._inflight.get(account, 0)
        if own >= limit:
            raise TenantBusy(f"the account has {limit} storlets running through this server")
        reserved = self._max_runs // _RESERVED_FRACTION if own else 0
        if sum(self._inflight.values()) >= self._max_runs - reserved:
            raise NodeBusy("proxy storlet concurrency limit reached")
        self._inflight[account] = own + 1

    def release(self, account: str) -> None:
        """Reverse of :meth:`acquire`."""
        self._inflight[account] -= 1
        if not self._inflight[account]:
            del self._inflight[account]
