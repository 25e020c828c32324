"""Tests of ``storlet_middleware/proxy``."""
