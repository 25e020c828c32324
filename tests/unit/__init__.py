"""Tests of one module each: seconds, without Docker, Java or network."""
