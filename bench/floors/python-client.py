"""The Python client beside one daemon: prints times of single calls and of many at once as one JSON line.

Arguments: socket, workspace, single calls, calls at once.
"""

import asyncio
import json
import sys
import time

import ringfence


async def main() -> None:
    socket, workspace, singles, together = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    async with ringfence.connect(workspace=workspace, socket=socket) as rf:

        async def read() -> None:
            (await rf.call("file_read", path="note")).unwrap()

        for _ in range(max(1, singles // 4)):
            await read()
        times = []
        for _ in range(singles):
            began = time.perf_counter()
            await read()
            times.append((time.perf_counter() - began) * 1000)

        async def some(count: int) -> None:
            for _ in range(count):
                await read()

        rounds = []
        for _ in range(3):
            began = time.perf_counter()
            await asyncio.gather(*(some(together // 32) for _ in range(32)))
            rounds.append(together // 32 * 32 / (time.perf_counter() - began))
    print(json.dumps({"times": times, "rates": rounds}))


asyncio.run(main())
