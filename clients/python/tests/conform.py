"""The Python client as the program that the conformance kit tests; docs/how-to/conformance.md says what it is told."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from typing import Any

import ringfence


def say(**line: Any) -> None:
    print(json.dumps(line, default=_bytes), flush=True)


def _bytes(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    raise TypeError(f"{type(value).__name__} can't be part of a result")


def failed(error: BaseException) -> dict[str, Any]:
    code = {"code": error.code} if isinstance(error, ringfence.RemoteError) else {}
    return {"message": str(error) or type(error).__name__, **code}


class Program:
    def __init__(self) -> None:
        self.client: ringfence.Client | None = None
        self.calls: dict[str, asyncio.Task[None]] = {}

    async def connect(self, resume_ms: int) -> None:
        client = ringfence.connect(socket=os.environ["RINGFENCE_SOCKET"], autostart=False, resume_ms=resume_ms)
        try:
            self.client = await client
            say(name="connect", connected=True)
        except Exception as error:
            say(name="connect", failed=failed(error))

    async def call(self, name: str, tool: str, input: dict[str, Any]) -> None:
        assert self.client is not None
        try:
            it = await self.client.call(tool, input)
            came = {"data": it.data} if it.success else {"error": it.error}
            say(name=name, result={"callId": it.call_id, "tool": it.tool, "success": it.success, **came, "metadata": it.metadata})
        except (Exception, asyncio.CancelledError) as error:
            say(name=name, failed=failed(error))

    async def run(self) -> None:
        lines = asyncio.StreamReader(limit=2**26)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        async for line in lines:
            told = json.loads(line)
            if told["do"] == "connect":
                await self.connect(told.get("resumeMs", 0))
            elif told["do"] == "call":
                self.calls[told["name"]] = asyncio.ensure_future(self.call(told["name"], told["tool"], told["input"]))
            elif told["do"] == "cancel":
                self.calls[told["name"]].cancel()
            else:
                if self.client is not None:
                    await self.client.close()
                return


asyncio.run(Program().run())
