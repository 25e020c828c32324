"""Tests of ``storlet_middleware/ruleset``."""
