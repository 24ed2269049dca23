"""Asks a handler about each call that waits for a person."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Union

from ._errors import RemoteError

if TYPE_CHECKING:
    from ._client import Client, Notification

#: "approve", "deny", or ``{"decision": …, "feedback"?: …, "remember"?: …}``; None leaves the question to others.
Answer = Union[str, Mapping[str, Any], None]
ApprovalHandler = Callable[["dict[str, Any]"], Union[Answer, Awaitable[Answer]]]


class ApprovalWatch:
    """A running handler. Closing it leaves questions that are not answered open."""

    def __init__(self, client: Client, handler: ApprovalHandler) -> None:
        self._client = client
        self._handler = handler
        #: Questions that the handler is asked about, by id. A handler is cancelled when its question is over.
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hearing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ApprovalWatch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def begin(self) -> None:
        """Starts to ask. Raises RemoteError where this session may not answer."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hearing = asyncio.ensure_future(self._hear(ready))
        self._hearing.add_done_callback(self._over)
        await asyncio.wait([ready, self._hearing], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            self._ended.exception()
            self._hearing.result()

    async def ended(self) -> None:
        """Waits until the watch is closed or the connection is over. Raises what the handler raised."""
        await asyncio.shield(self._ended)

    def close(self) -> None:
        """Asks the handler no more."""
        for task in [*self._asked.values(), *filter(None, [self._hearing])]:
            task.cancel()

    async def _hear(self, ready: asyncio.Future[None]) -> None:
        # Subscribes before it lists, so that no question is missed in between.
        async with self._client.notifications("approvals") as told:
            for approval in await self._listed():
                self._ask(approval)
            ready.set_result(None)
            async for it in told:
                await self._take(it)

    async def _take(self, it: Notification) -> None:
        if it.method == "approval.requested":
            self._ask(it.params["approval"])
        elif it.method == "approval.resolved":
            self._end(it.params["approvalId"])
        elif it.method == "events.missed":
            waiting = await self._listed()
            for gone in self._asked.keys() - {approval["approvalId"] for approval in waiting}:
                self._end(gone)
            for approval in waiting:
                self._ask(approval)

    def _ask(self, approval: dict[str, Any]) -> None:
        if approval["approvalId"] not in self._asked:
            task = asyncio.ensure_future(self._answer(approval))
            self._asked[approval["approvalId"]] = task
            task.add_done_callback(self._answered)

    def _end(self, approval_id: str) -> None:
        if task := self._asked.pop(approval_id, None):
            task.cancel()

    async def _answer(self, approval: dict[str, Any]) -> None:
        answer = self._handler(approval)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is None:
            return
        given = {"decision": answer} if isinstance(answer, str) else dict(answer)
        # Counts for what the handler was shown, and for nothing else.
        params = {"approvalId": approval["approvalId"], "digest": approval["digest"], **given}
        # The notice of the answer must not cancel the task that gives it.
        await asyncio.shield(self._resolve(params))

    async def _resolve(self, params: dict[str, Any]) -> None:
        try:
            await self._client.request("approvals.resolve", params)
        except RemoteError:
            # Somebody else may have answered first.
            if any(it["approvalId"] == params["approvalId"] for it in await self._listed()):
                raise

    async def _listed(self) -> list[dict[str, Any]]:
        approvals: list[dict[str, Any]] = (await self._client.request("approvals.list"))["approvals"]
        return approvals

    def _answered(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _over(self, hearing: asyncio.Task[None]) -> None:
        error = None if hearing.cancelled() else hearing.exception()
        if error is not None:
            return self._fail(error)
        if not self._ended.done():
            self._ended.set_result(None)
        return None

    def _fail(self, error: BaseException) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)
        self.close()
