"""Print ``etc/storlet.conf-sample``."""

from __future__ import annotations

import sys

from storlet_middleware.config.sample import sample

sys.stdout.write(sample())
