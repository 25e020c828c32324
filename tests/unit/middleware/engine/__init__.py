"""Tests of ``storlet_middleware/engine``."""
