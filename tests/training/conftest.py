"""Lets the tests of this folder share tiny_runs.py."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
