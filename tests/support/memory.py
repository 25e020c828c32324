"""A folder for temporary files that no test needs on a disk."""

from __future__ import annotations

import os
from typing import Final

#: In memory where the machine has such a folder: the code under test syncs its files, and on a disk
#: each of thousands of tests would wait for that.  Short, because it is part of sockets' paths.
FOLDER: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
