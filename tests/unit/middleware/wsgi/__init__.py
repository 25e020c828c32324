"""Tests of ``storlet_middleware/wsgi``."""
