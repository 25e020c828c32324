"""All parts that need a compiler or the network, for the first stages of ``Dockerfile``.

``python3 -m storlet_middleware.aio.build`` builds the libraries only: the parts that contain none
of our Python packages.  It imports few modules, so that a change of another module of the tooling
does not repeat the build in Docker.
"""

from __future__ import annotations

import sys

from . import cache, java, native, venv
from .progress import AioError, Progress, complain


def build_parts(*, with_code: bool = True) -> None:
    """Fill the cache; without ``with_code``, only with the libraries."""
    log = cache.cache_root() / "build.log"
    progress = Progress(3)
    with progress.step("Python environment"):
        (venv.code if with_code else venv.deps)(log)
        venv.data(log)
    with progress.step("Java parts"):
        java.parts(log)
    with progress.step("native parts"):
        native.parts(log)


def main() -> int:
    """Build the libraries; 0 is success."""
    try:
        build_parts(with_code=False)
    except AioError as error:
        complain(f"\nerror: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
