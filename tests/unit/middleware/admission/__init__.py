"""Tests of ``storlet_middleware/admission``."""
