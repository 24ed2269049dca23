"""The Python client beside one daemon: prints times of single calls, through the adapters too, and of many at once.

The frameworks can't be installed here: stand-ins keep what an adapter hands to them, and its function is called. What is
printed is one JSON line: milliseconds of calls by name, and calls a second.

Arguments: socket, workspace, single calls, calls at once.
"""

import asyncio
import json
import sys
import time
import types
from collections.abc import Awaitable, Callable
from typing import Any

import ringfence
from ringfence.adapters import langchain, openai_agents, pydantic_ai

INPUT = {"path": "note"}


def keep(**given: Any) -> dict[str, Any]:
    """Takes the place of a framework's function that makes a tool."""
    return given


def stand_in(name: str, **members: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


async def adapters(rf: ringfence.Client) -> dict[str, Callable[[], Awaitable[Any]]]:
    """A call through each adapter, by its name."""
    stand_in("langchain_core", tools=None)
    stand_in("langchain_core.tools", StructuredTool=types.SimpleNamespace(from_function=keep))
    stand_in("agents", FunctionTool=keep)
    stand_in("pydantic_ai", Tool=types.SimpleNamespace(from_schema=keep))
    of_langchain, of_openai, of_pydantic = [
        next(it for it in await module.tools(rf) if it["name"] == "file_read")
        for module in (langchain, openai_agents, pydantic_ai)
    ]
    count = 0

    def context() -> Any:
        nonlocal count
        count += 1
        return types.SimpleNamespace(tool_call_id=f"python-{count}")

    return {
        "langchain": lambda: of_langchain["coroutine"](**INPUT),
        "openai_agents": lambda: of_openai["on_invoke_tool"](context(), json.dumps(INPUT)),
        "pydantic_ai": lambda: of_pydantic["function"](context(), **INPUT),
    }


async def main() -> None:
    socket, workspace, singles, together = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    async with ringfence.connect(workspace=workspace, socket=socket) as rf:

        async def read() -> None:
            (await rf.call("file_read", **INPUT)).unwrap()

        calls = {"client": read, **await adapters(rf)}
        for _ in range(max(1, singles // 4)):
            await read()
        times: dict[str, list[float]] = {name: [] for name in calls}
        # In turns, so that what else the machine does falls on all alike.
        for _ in range(singles):
            for name, call in calls.items():
                began = time.perf_counter()
                await call()
                times[name].append((time.perf_counter() - began) * 1000)

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
