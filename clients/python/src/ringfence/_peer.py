"""One connection to a daemon: frames, and answers that are told apart by their ids."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, cast

from ._errors import Disconnected, RemoteError
from ._msgpack import MessageError, pack, unpack

Hear = Callable[[str, "dict[str, Any]"], None]

_HEADER_BYTES = 4
#: Largest message that the daemon sends unless it is configured otherwise; hello says how much it is.
_FRAME_BYTES_MAX = 16 * 1024 * 1024


class Peer(asyncio.Protocol):
    """A connection. ``hear`` receives each notification, ``lost`` is called once when it ends."""

    def __init__(self, hear: Hear, lost: Callable[[Peer], None]) -> None:
        self._hear = hear
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._writable: asyncio.Future[None] | None = None
        self.frame_bytes_max = _FRAME_BYTES_MAX
        self.closed = False

    @property
    def awaits(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._answers)

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Asks and waits for the answer. Raises RemoteError for a refusal, Disconnected when the connection ends."""
        while self._writable is not None:
            await asyncio.shield(self._writable)
        # Where this task is cancelled, so is the future, and the answer is dropped when it comes.
        return await self.send(method, params)

    def send(self, method: str, params: dict[str, Any]) -> asyncio.Future[Any]:
        """Asks at once, whether or not the daemon reads; the future has the answer."""
        if self.closed or self._transport is None:
            raise Disconnected("the connection to the daemon has ended")
        self._last_id += 1
        payload = pack({"id": self._last_id, "method": method, "params": params})
        if len(payload) > self.frame_bytes_max:
            raise MessageError(f"a message of {len(payload)} bytes; the daemon takes {self.frame_bytes_max}")
        self._transport.write(len(payload).to_bytes(_HEADER_BYTES, "big") + payload)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[self._last_id] = answer
        return answer

    def close(self) -> None:
        """Ends the connection; requests that wait are told."""
        if self._transport is not None:
            self._transport.close()
        self.connection_lost(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        at = 0
        while len(received) - at >= _HEADER_BYTES:
            end = at + _HEADER_BYTES + int.from_bytes(received[at : at + _HEADER_BYTES], "big")
            if end - at - _HEADER_BYTES > self.frame_bytes_max:
                return self.close()
            if len(received) < end:
                break
            payload = bytes(received[at + _HEADER_BYTES : end])
            at = end
            try:
                self._take(unpack(payload))
            except MessageError:
                return self.close()
        del received[:at]

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.closed:
            return
        self.closed = True
        self.resume_writing()
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(Disconnected("the connection to the daemon ended before it answered"))
                answer.exception()  # Seen: a request that nobody awaits any more is not reported.
        self._lost(self)

    def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise MessageError("a message is no map")
        if "id" not in message:
            return self._hear(message.get("method", ""), message.get("params") or {})
        answer = self._answers.pop(message["id"], None)
        if answer is None or answer.done():
            return None
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result"))
        else:
            answer.set_exception(RemoteError(error["code"], error["message"], error.get("data")))
        return None
