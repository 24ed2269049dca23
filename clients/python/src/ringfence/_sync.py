"""The client for programs without asyncio: the same client, on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from ._approvals import ApprovalHandler
from ._client import BatchOptions, CallOptions, Client
from ._connection import Options
from ._results import BatchResult, Output, Result
from ._tools import SyncToolMethods

T = TypeVar("T")


class SyncStream(Iterator[Output]):
    """A running call whose output is read as it comes."""

    def __init__(self, client: SyncClient, make: Callable[[], Any]) -> None:
        async def begin() -> Any:
            return make()

        self._client = client
        self._stream = client.run(begin())
        self.call_id: str = self._stream.call_id

    def __next__(self) -> Output:
        piece = self._client.run(_next(self._stream))
        if piece is None:
            raise StopIteration
        return piece

    def result(self) -> Result[Any]:
        """The result of the call, when it has ended."""
        result: Result[Any] = self._client.run(self._stream.result())
        return result


async def _next(stream: Any) -> Output | None:
    try:
        piece: Output = await stream.__anext__()
        return piece
    except StopAsyncIteration:
        return None


class SyncClient(SyncToolMethods):
    """A session with a daemon; see ``connect_sync``. Several threads may use it at once."""

    def __init__(self, options: Options) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ringfence", daemon=True)
        self._thread.start()
        self._client = Client(options)
        try:
            self.run(self._client._open())
        except BaseException:
            self.close()
            raise

    @property
    def hello(self) -> dict[str, Any]:
        """The daemon's answer to hello."""
        return self._client.hello

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session and its thread; calls that are not detached end with it."""
        if self._loop.is_closed():
            return
        self.run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine of the client to its end. Ctrl-C cancels it, and with it its call."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Any method of the protocol."""
        return self.run(self._client.request(method, params))

    def call(
        self, tool: str, input: Mapping[str, Any] | None = None, /, *, call_options: CallOptions | None = None, **fields: Any
    ) -> Result[Any]:
        """Runs a tool; its input as keywords, or as one mapping. Does not raise for a call that fails."""
        return self.run(self._client.call(tool, input, call_options=call_options, **fields))

    def stream(
        self, tool: str, input: Mapping[str, Any] | None = None, /, *, call_options: CallOptions | None = None, **fields: Any
    ) -> SyncStream:
        """Runs a tool and gives its output piece by piece: ``for piece in rf.stream(...)``."""
        return SyncStream(self, lambda: self._client.stream(tool, input, call_options=call_options, **fields))

    def batch(
        self,
        calls: Sequence[Mapping[str, Any]],
        options: BatchOptions | None = None,
        *,
        on_result: Callable[[str, Result[Any]], None] | None = None,
    ) -> BatchResult:
        """Runs calls in the order that their references require. ``on_result`` is called on the client's thread."""
        return self.run(self._client.batch(calls, options, on_result=on_result))

    def plan(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The order of a batch and an estimate of its time; nothing runs."""
        return self.run(self._client.plan(calls))

    def detach(
        self, tool: str, input: Mapping[str, Any] | None = None, /, *, call_options: CallOptions | None = None, **fields: Any
    ) -> str:
        """Starts a call that goes on without this program, and returns its id."""
        return self.run(self._client.detach(tool, input, call_options=call_options, **fields))

    def result(self, call_id: str) -> Result[Any]:
        """The result of a call by its id, when it has ended."""
        return self.run(self._client.result(call_id))

    def tools(self, format: str = "ringfence", **selection: str) -> list[dict[str, Any]]:
        """The tools, for people or as an API takes them."""
        return self.run(self._client.tools(format, **selection))

    def cancel(self, call_id: str) -> bool:
        """Cancels a call, or a batch by its id."""
        return self.run(self._client.cancel(call_id))

    def undo(self, call_id: str, *, force: bool = False) -> dict[str, Any]:
        """Takes back what a call changed in files."""
        return self.run(self._client.undo(call_id, force=force))

    def record(self, call_id: str) -> dict[str, Any]:
        """What is known of a call."""
        return self.run(self._client.record(call_id))

    def answer_approvals(self, handler: ApprovalHandler) -> None:
        """Asks the handler about each call that waits for a person, until the connection ends. Needs the role operator."""

        async def answer() -> None:
            async with await self._client.on_approval(handler) as watch:
                await watch.ended()

        self.run(answer())
