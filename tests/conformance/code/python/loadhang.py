"""Hangs when it is imported."""

import time

time.sleep(300)
