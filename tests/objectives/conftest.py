"""Lets the tests of this folder share objective_batches.py."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
