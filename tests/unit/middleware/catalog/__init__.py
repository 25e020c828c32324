"""Tests of ``storlet_middleware/catalog``."""
