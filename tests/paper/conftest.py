"""Lets the tests of this folder import synthetic_results."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
