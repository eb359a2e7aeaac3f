"""Load and fuzz a running page: `python benchmarks/web_load.py`; writes results/web-load.json.

Starts `clew serve`, sends 10x10 solves from 64 clients for a minute, then 10,000 fuzzed requests, and reports status
codes, latency and the memory of the server. Fails if a response has another 5xx status than 503, or memory grows by
more than 10 %.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from clew.files import write_json
from clew.provenance import provenance

KEYS = ["maze", "model", "decoder", "family", "height", "width", "seed", "text", "labels"]
PATHS = ["/api/solve", "/api/generate", "/api/read", "/api/loops", "/api/animate", "/api/runs/x", "/api/results/x.png"]


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024  # type: ignore[union-attr]


async def load(address: str, clients: int, seconds: float, pid: int) -> dict[str, Any]:
    """Solve mazes from many clients at once."""
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    memory: list[float] = []
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=httpx.Limits(max_connections=clients)) as http:
        mazes = [(await http.post("/api/generate", json={"family": "dfs", "seed": i})).json() for i in range(50)]
        deadline = time.monotonic() + seconds

        async def client(number: int) -> None:
            rng = random.Random(number)
            while time.monotonic() < deadline:
                began = time.perf_counter()
                answer = await http.post("/api/solve", json={"maze": rng.choice(mazes), "model": "cells-dfs"})
                statuses[answer.status_code] += 1
                if answer.status_code == 200:
                    latencies.append(time.perf_counter() - began)
                else:
                    await asyncio.sleep(0.5)

        async def watch() -> None:
            while time.monotonic() < deadline:
                memory.append(memory_mb(pid))
                await asyncio.sleep(1)

        await asyncio.gather(watch(), *(client(number) for number in range(clients)))
    latencies.sort()
    late = memory[len(memory) // 4 :]
    return {
        "clients": clients,
        "seconds": seconds,
        "statuses": dict(statuses),
        "median_ms": 1000 * statistics.median(latencies),
        "p99_ms": 1000 * latencies[int(0.99 * (len(latencies) - 1))],
        "memory_mb_after_a_quarter": late[0],
        "memory_mb_highest": max(late),
        "memory_mb_last": late[-1],
    }


def random_value(rng: random.Random, depth: int = 0) -> Any:
    """Return a JSON value of any shape."""
    plain = [None, True, -1, 0, 3, 2**64, 1e308, "", "dfs", "path-star-2x4", "cells-dfs", "text-dfs-4-mlmu"]
    plain += ["#S G#", "\x00\x1b[2J", "walk", "walk:loops=1000,tolerance=0", "certainty:count=-1", "/etc/passwd"]
    if depth > 3 or rng.random() < 0.6:
        return rng.choice(plain) if rng.random() < 0.9 else "".join(chr(rng.randrange(1, 300)) for _ in range(50))
    if rng.random() < 0.5:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    keys = ["cells", "start", "goal", "height", "width", "walls", "edges"]
    return {key: random_value(rng, depth + 1) for key in rng.sample(keys, 3)}


async def fuzz(address: str, requests: int) -> dict[str, Any]:
    """Send requests of random content, some of them real requests with damage."""
    statuses: Counter[int] = Counter()
    rng = random.Random(0)
    async with httpx.AsyncClient(base_url=address, timeout=120) as http:
        maze = (await http.post("/api/generate", json={"family": "dfs", "height": 4, "width": 4})).json()
        for _ in range(requests):
            body: Any = {key: random_value(rng) for key in rng.sample(KEYS, 4)}
            if rng.random() < 0.5:
                body |= {"model": "cells-dfs", "maze": maze | {rng.choice(list(maze)): random_value(rng)}}
            path = rng.choice(PATHS)
            if rng.random() < 0.2:
                raw = bytearray(str(body).replace("'", '"').encode())
                for _ in range(rng.randrange(1, 8)):
                    raw[rng.randrange(len(raw))] = rng.randrange(256)
                answer = await http.post(path, content=bytes(raw))
            elif rng.random() < 0.1:
                answer = await http.request(rng.choice(["GET", "PUT", "DELETE", "HEAD"]), path)
            else:
                answer = await http.post(path, json=body)
            statuses[answer.status_code] += 1
    return {"requests": requests, "statuses": dict(statuses)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=Path("results/web-load.json"))
    options = parser.parse_args()
    server = subprocess.Popen([sys.executable, "-m", "clew", "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split("/  (")[0]
        result: dict[str, Any] = {"load": asyncio.run(load(address, options.clients, options.seconds, server.pid))}
        result["fuzz"] = asyncio.run(fuzz(address, options.requests))
        result["provenance"] = provenance(" ".join(["python", *sys.argv]), [0])
        began = time.monotonic()
    finally:
        server.terminate()
        server.wait(timeout=10)
    result["seconds_to_stop"] = time.monotonic() - began
    print(result)
    write_json(options.out, result)
    failed = [status for part in ("load", "fuzz") for status in result[part]["statuses"] if status >= 500]
    grown = result["load"]["memory_mb_highest"] / result["load"]["memory_mb_after_a_quarter"]
    if set(failed) - {503} or grown > 1.1:
        sys.exit(f"status {failed}, memory x{grown:.2f}")


if __name__ == "__main__":
    main()
