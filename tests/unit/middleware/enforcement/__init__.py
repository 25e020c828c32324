"""Tests of ``storlet_middleware/enforcement``."""
