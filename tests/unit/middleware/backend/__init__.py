"""Tests of ``storlet_middleware/backend``."""
