"""For every test: one thread a process.

The models of the tests are tiny, so a second thread gains nothing, and two test processes with two threads each wait
for one another. Set before torch is imported, so that child processes inherit it.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
