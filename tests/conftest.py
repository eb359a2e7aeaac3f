"""For every test: one thread a process, and a registry without what other tests registered.

The models of the tests are tiny, so a second thread gains nothing, and two test processes with two threads each wait
for one another. Set before torch is imported, so that child processes inherit it.
"""

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def keep_registry() -> Iterator[None]:
    """Forget the components that a test registers."""
    from clew import registry  # not above: the setting comes first

    before = {kind: dict(names) for kind, names in registry._components.items()}
    yield
    for kind, names in before.items():
        registry._components[kind].clear()
        registry._components[kind].update(names)
