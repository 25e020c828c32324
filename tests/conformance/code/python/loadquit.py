"""Ends the process that imports it, politely."""

import sys

sys.exit("enough")
