"""The daemons that test/daemon/python.test.ts started for these tests, and a way to them that can be cut."""

from __future__ import annotations

import asyncio
import os
import unittest
from pathlib import Path
from typing import Any

import ringfence


def given(name: str) -> str:
    """A value that the runner gave, such as the path of a socket."""
    return os.environ[f"RINGFENCE_TEST_{name}"]


class DaemonCase(unittest.IsolatedAsyncioTestCase):
    """A test with the folder that its daemon works in."""

    workspace = Path(os.environ.get("RINGFENCE_TEST_WORKSPACE", "."))

    def connect(self, **options: Any) -> ringfence.Client:
        """A client of the daemon that allows commands."""
        return ringfence.connect(self.workspace, socket=options.pop("socket", given("SOCKET")), **options)

    def asking(self, **options: Any) -> ringfence.Client:
        """A client of the daemon that asks a person about each command."""
        return ringfence.connect(given("ASKING_WORKSPACE"), socket=given("ASKING_SOCKET"), **options)

    async def until(self, holds: Any) -> None:
        """Looks again until it holds. The test's own time limit bounds it."""
        while not await holds():
            await asyncio.sleep(0.01)


class CuttableSocket:
    """A socket in front of a daemon's, whose connections can be cut as a broken line would."""

    def __init__(self, path: str, to: str) -> None:
        self.path = path
        self.made = 0
        self._to = to
        self._open: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> CuttableSocket:
        self._server = await asyncio.start_unix_server(self._pass_on, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Ends all connections at once."""
        for it in self._open:
            it.transport.abort()
        self._open.clear()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        to_reader, to_writer = await asyncio.open_unix_connection(self._to)
        self._open += [writer, to_writer]
        await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer), return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.transport.abort()
