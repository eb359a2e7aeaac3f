"""Sizes and SHA-256 sums of a dataset's files, and of its description."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileRecord:
    """What dataset.json knows of another file."""

    bytes: int
    sha256: str


def hash_file(path: Path, progress: Callable[[int], None] = lambda size: None) -> FileRecord:
    """The size and sum of a file; `progress` is told the size of each block that was read."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            size += len(block)
            progress(len(block))
    return FileRecord(size, digest.hexdigest())


def hash_description(value: dict[str, Any]) -> str:
    """The sum of a dataset.json's content, which it holds itself as `sha256`; that field does not count."""
    content = {name: field for name, field in value.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
