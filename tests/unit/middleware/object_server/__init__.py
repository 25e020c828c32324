"""Tests of ``storlet_middleware/object_server``."""
