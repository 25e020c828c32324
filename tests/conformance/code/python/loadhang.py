"""Takes for ever to import."""

import time

time.sleep(300)
