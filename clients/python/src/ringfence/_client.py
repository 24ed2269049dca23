"""The client for asyncio. ``_sync.py`` offers the same to programs without a loop of their own."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypedDict

from ._approvals import ApprovalHandler, ApprovalWatch
from ._connection import Connection, Options
from ._errors import RemoteError
from ._results import BatchResult, Output, Result
from ._tools import ToolMethods

#: How long one request for output waits for more of it, in milliseconds.
_OUTPUT_WAIT_MS = 30_000
#: Longest time that ``detach`` waits for the call to begin, in seconds; a queued call has not begun by then.
_DETACH_WAIT_S = 1.0
#: Notifications that nobody read; the oldest beyond it are dropped.
_UNREAD_MAX = 1024


class CallOptions(TypedDict, total=False):
    """Options of one call, named as in the protocol."""

    #: Makes the call safe to repeat: the same id and input never run twice.
    callId: str
    timeoutMs: int
    #: False asks for a fresh result.
    cache: bool
    #: Shows what the call would do, without running it.
    preview: bool
    #: The call goes on when the connection ends.
    detached: bool
    retries: int


class BatchOptions(TypedDict, total=False):
    """Options of a batch, named as in the protocol."""

    failFast: bool
    concurrency: int
    timeoutMs: int
    batchId: str


@dataclass(frozen=True)
class Notification:
    """What the daemon told, such as ``call.update``, with its params."""

    method: str
    params: dict[str, Any]


class Stream(AsyncIterator[Output]):
    """A running call whose output is read as it comes. Nothing is lost to a slow reader: the daemon keeps the log."""

    def __init__(self, call_id: str, call: asyncio.Task[Result[Any]], output: AsyncIterator[Output]) -> None:
        self.call_id = call_id
        self._call = call
        self._output = output

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Output:
        try:
            return await self._output.__anext__()
        except asyncio.CancelledError:
            self._call.cancel()
            raise
        except RemoteError:
            # The call has no log: it was refused, or its tool runs no program.
            raise StopAsyncIteration from None

    async def result(self) -> Result[Any]:
        """The result of the call, when it has ended."""
        return await self._call

    def cancel(self) -> None:
        """Ends the call."""
        self._call.cancel()


class Client(ToolMethods):
    """A session with a daemon. Open it with ``async with`` or ``await``; see ``connect``."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._heard: list[Callable[[str, dict[str, Any]], None]] = []
        self._connection_made: Connection | None = None
        #: The daemon's answer to hello.
        self.hello: dict[str, Any] = {}

    async def __aenter__(self) -> Client:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def _open(self) -> Client:
        if self._connection_made is None:
            self._connection_made = Connection(self._options, self._hear)
        self.hello = await self._connection_made.open()
        return self

    @property
    def _connection(self) -> Connection:
        if self._connection_made is None:
            raise RuntimeError("open the client first: `async with ringfence.connect() as rf`")
        return self._connection_made

    async def close(self) -> None:
        """Ends the session; calls that are not detached end with it."""
        if self._connection_made is not None:
            await self._connection_made.close()

    async def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Any method of the protocol. Raises RemoteError for a refusal, Disconnected when the connection ends."""
        return await self._connection.request(method, dict(params or {}))

    async def call(
        self, tool: str, input: Mapping[str, Any] | None = None, /, *, call_options: CallOptions | None = None, **fields: Any
    ) -> Result[Any]:
        """Runs a tool; its input as keywords, or as one mapping. Does not raise for a call that fails.

        Cancelling the task cancels the call.
        """
        options: dict[str, Any] = dict(call_options or {})
        call_id = options.setdefault("callId", str(uuid.uuid4()))
        params = {"tool": tool, "input": {**(input or {}), **fields}, "options": options}
        try:
            return Result.of(await self._connection.request("tools.call", params))
        except asyncio.CancelledError:
            self._connection.tell("calls.cancel", {"callId": call_id})
            raise

    def stream(
        self, tool: str, input: Mapping[str, Any] | None = None, /, *, call_options: CallOptions | None = None, **fields: Any
    ) -> Stream:
        """Runs a tool and gives its output piece by piece: ``async for piece in rf.stream(...)``."""
        options = CallOptions(**(call_options or {}))
        call_id = options.setdefault("callId", str(uuid.uuid4()))
        call = asyncio.ensure_future(self.call(tool, {**(input or {}), **fields}, call_options=options))
        return Stream(call_id, call, self._output_of(call_id, call))

    async def batch(
        self,
        calls: Sequence[Mapping[str, Any]],
        options: BatchOptions | None = None,
        *,
        on_result: Callable[[str, Result[Any]], None] | None = None,
    ) -> BatchResult:
        """Runs calls ``{id, tool, input, dependsOn?, options?}`` in the order that their references require.

        ``on_result`` gets each result as it comes. Cancelling the task cancels what has not ended.
        """
        given: dict[str, Any] = {"batchId": str(uuid.uuid4()), **(options or {}), "progress": on_result is not None}

        def hear(method: str, params: dict[str, Any]) -> None:
            if method == "batch.update" and params["batchId"] == given["batchId"] and on_result is not None:
                on_result(params["id"], Result.of(params["result"]))

        self._heard.append(hear)
        try:
            params = {"calls": [dict(it) for it in calls], "options": given}
            return BatchResult.of(await self._connection.request("tools.batch", params))
        except asyncio.CancelledError:
            self._connection.tell("calls.cancel", {"callId": given["batchId"]})
            raise
        finally:
            self._heard.remove(hear)

    async def plan(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The order of a batch and an estimate of its time; nothing runs."""
        params = {"calls": [dict(it) for it in calls], "options": {"plan": True}}
        plan: dict[str, Any] = await self.request("tools.batch", params)
        return plan

    async def detach(
        self, tool: str, input: Mapping[str, Any] | None = None, /, *, call_options: CallOptions | None = None, **fields: Any
    ) -> str:
        """Starts a call that goes on without this program, and returns its id for ``result``, ``output``, ``cancel``."""
        options: dict[str, Any] = {"callId": str(uuid.uuid4()), **(call_options or {}), "detached": True, "progress": True}
        begun = asyncio.Event()

        def hear(method: str, params: dict[str, Any]) -> None:
            if params.get("callId") == options["callId"] and params.get("state", {}).get("status") != "queued":
                begun.set()

        self._heard.append(hear)
        params = {"tool": tool, "input": {**(input or {}), **fields}, "options": options}
        call = asyncio.ensure_future(self._connection.request("tools.call", params))

        def ended(call: asyncio.Future[Any]) -> None:
            if not call.cancelled():
                call.exception()  # Seen here: the call goes on when this connection ends.
            begun.set()

        call.add_done_callback(ended)
        try:
            await asyncio.wait_for(begun.wait(), _DETACH_WAIT_S)
        except asyncio.TimeoutError:
            pass  # It waits for its turn, and begins without us.
        finally:
            self._heard.remove(hear)
        if call.done() and call.exception() is not None:
            call.result()  # Raises what the daemon refused.
        return str(options["callId"])

    async def result(self, call_id: str) -> Result[Any]:
        """The result of a call by its id, when it has ended. Raises RemoteError for a call that is not known here."""
        async for _ in self.output(call_id):
            pass  # The output ends with the call, also where it is empty.
        record = await self.record(call_id)
        if "result" not in record:
            raise LookupError(f"the call has ended ({record['state']['status']}), but its result is no longer kept")
        return Result.of(record["result"])

    async def output(self, call_id: str, *, after_seq: int = 0, follow: bool = True) -> AsyncIterator[Output]:
        """The kept output of a call after an entry; with ``follow`` up to its end."""
        while True:
            wait_ms = _OUTPUT_WAIT_MS if follow else 0
            page = await self.request("results.read", {"callId": call_id, "afterSeq": after_seq, "waitMs": wait_ms})
            for entry in page["entries"]:
                yield Output(entry["seq"], entry["stream"], entry["data"])
            if page["eof"] or (not follow and not page["entries"]):
                return
            after_seq = page["seq"]

    async def tools(self, format: str = "ringfence", **selection: str) -> list[dict[str, Any]]:
        """The tools, for people or as the API ``openai``, ``openai-chat``, ``anthropic`` or ``mcp`` takes them.

        ``tier``, ``category`` and ``tools`` ("default" or "all") select among them.
        """
        tools: list[dict[str, Any]] = (await self.request("tools.list", {"format": format, **selection}))["tools"]
        return tools

    async def cancel(self, call_id: str) -> bool:
        """Cancels a call, or a batch by its id. Whether there was something to cancel."""
        cancelled: bool = (await self.request("calls.cancel", {"callId": call_id}))["cancelled"]
        return cancelled

    async def undo(self, call_id: str, *, force: bool = False) -> dict[str, Any]:
        """Takes back what a call changed in files: all of it or, where there are ``conflicts``, nothing."""
        undone: dict[str, Any] = await self.request("calls.undo", {"callId": call_id, "force": force})
        return undone

    async def record(self, call_id: str) -> dict[str, Any]:
        """What is known of a call: its state, and its result where there is one."""
        record: dict[str, Any] = await self.request("calls.get", {"callId": call_id})
        return record

    async def on_approval(self, handler: ApprovalHandler) -> ApprovalWatch:
        """Asks the handler about each call that waits for a person, and sends its answers. Needs the role operator."""
        watch = ApprovalWatch(self, handler)
        await watch.begin()
        return watch

    @asynccontextmanager
    async def notifications(self, *topics: str) -> AsyncIterator[AsyncIterator[Notification]]:
        """What the daemon tells about these topics: ``async with rf.notifications("calls") as told: async for …``.

        ``events.missed`` comes where a daemon took over, which did not tell what happened in between.
        """
        unread: deque[Notification] = deque(maxlen=_UNREAD_MAX)
        came = asyncio.Event()

        def hear(method: str, params: dict[str, Any]) -> None:
            unread.append(Notification(method, params))
            came.set()

        connection = self._connection
        self._heard.append(hear)
        counts = connection.subscriptions
        try:
            await self.request("events.subscribe", {"topics": list(topics)})
            counts[topics] = counts.get(topics, 0) + 1
            try:
                yield _told(unread, came, connection)
            finally:
                counts[topics] -= 1
                if counts[topics] == 0:
                    del counts[topics]
        finally:
            self._heard.remove(hear)

    async def ended(self) -> None:
        """Waits until the connection is over and its session is not resumed."""
        await asyncio.shield(self._connection.ended)

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        for hear in list(self._heard):
            hear(method, params)

    async def _output_of(self, call_id: str, call: asyncio.Task[Result[Any]]) -> AsyncIterator[Output]:
        await asyncio.sleep(0)  # The call is sent first.
        if call.done() and (call.cancelled() or call.exception()):
            return
        async for piece in self.output(call_id):
            yield piece


async def _told(
    unread: deque[Notification], came: asyncio.Event, connection: Connection
) -> AsyncIterator[Notification]:
    """Notifications as they come, until the connection is over."""
    over: asyncio.Future[Any] = asyncio.shield(connection.ended)
    try:
        while True:
            while unread:
                yield unread.popleft()
            came.clear()
            more: asyncio.Future[Any] = asyncio.ensure_future(came.wait())
            await asyncio.wait([more, over], return_when=asyncio.FIRST_COMPLETED)
            if not more.done():
                more.cancel()
                return
    finally:
        over.cancel()
