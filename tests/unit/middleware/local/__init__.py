"""Tests of ``storlet_middleware/local``."""
