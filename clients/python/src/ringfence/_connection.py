"""A client's connection: one at a time, made again when it ends, with its session resumed if the session waits."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from ._daemon import DaemonPaths, start_daemon
from ._errors import Disconnected, RemoteError
from ._peer import Hear, Peer

_FORBIDDEN = -32004
_OVERLOADED = -32006
#: Methods that begin something, which a daemon that hands over refuses.
_BEGINNING = frozenset({"tools.call", "tools.batch", "calls.undo", "upgrade"})
#: Methods that are not repeated where it is unknown whether the daemon served them.
_ONCE = frozenset({"tools.batch", "calls.undo", "approvals.resolve", "events.subscribe", "policy.reload", "shutdown"})
#: First and longest pause between attempts to reach a daemon, in seconds.
_RETRY_S = 0.02
_RETRY_S_MAX = 1.0
#: Longest time to wait for a daemon that was just started, or that is too busy to take a connection, in seconds.
_REACH_S_MAX = 10.0


@dataclass(frozen=True)
class Options:
    """What a client was opened with; see ``connect``."""

    paths: DaemonPaths
    workspace: str | None
    role: str | None
    token: str | None
    policy: str | None
    session_name: str | None
    resume_ms: int
    autostart: bool
    name: str
    version: str


@dataclass
class _Link:
    peer: Peer
    hello: dict[str, Any]

    @property
    def session(self) -> dict[str, Any]:
        session: dict[str, Any] = self.hello["session"]
        return session


class Connection:
    """Sends requests over whichever connection is open, and opens one where none is."""

    def __init__(self, options: Options, hear: Hear) -> None:
        self._options = options
        self._hear = hear
        self._link: _Link | None = None
        #: The connection to a daemon that hands over to a new one; it answers what began there.
        self._leaving: _Link | None = None
        self._opening: asyncio.Task[_Link] | None = None
        self._closed = False
        #: The topics that the client subscribed to, and how often: a daemon that takes over knows nothing of them.
        self.subscriptions: dict[tuple[str, ...], int] = {}
        #: Is done when the connection is over and its session is not resumed.
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> dict[str, Any]:
        """The daemon's answer to hello; connects where there is no connection."""
        return (await self._opened()).hello

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Sends any request of the protocol. One that was cut off is repeated only where that has no second effect."""
        while True:
            link = self._live(method) or await self._opened()
            try:
                answer = await link.peer.request(method, params)
            except RemoteError as error:
                if not _moved_on(error):
                    raise
            except Disconnected:
                if self._closed or self._options.resume_ms == 0 or method in _ONCE:
                    raise
                again = await self._opened()
                # In another session the id of the call is unused, so that the call would run twice.
                if again.session["id"] != link.session["id"] and not _detached(params):
                    raise
                continue
            else:
                if not _not_begun(method, params, answer):
                    return answer
            finally:
                self._close_left()
            self._leave(link)

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Sends a request whose answer nobody needs, at once; not at all where there is no connection."""
        link = self._live(method)
        if link is not None:
            link.peer.send(method, params).add_done_callback(_seen)

    async def close(self) -> None:
        """Ends the connection for good; calls that are not detached end with it."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        for link in (self._link, self._leaving):
            if link is not None:
                link.peer.close()
        self._end()

    def _live(self, method: str) -> _Link | None:
        leaving = self._leaving
        if leaving is not None and not leaving.peer.closed and method not in _BEGINNING:
            return leaving
        link = self._link
        return link if link is not None and link is not leaving and not link.peer.closed else None

    async def _opened(self) -> _Link:
        """A live connection. Callers share one attempt, and a caller that is cancelled does not end it."""
        if self._closed:
            raise Disconnected("this client is closed")
        if (link := self._live("hello")) is not None and link is not self._leaving:
            return link
        if self._opening is None:
            before, self._link = self._link, None
            made = self._resume(before) if before and self._options.resume_ms > 0 else self._connect(None)
            self._opening = asyncio.ensure_future(made)
            self._opening.add_done_callback(self._has_opened)
        return await asyncio.shield(self._opening)

    def _has_opened(self, opening: asyncio.Task[_Link]) -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is not None:
            self._end()

    async def _resume(self, before: _Link) -> _Link:
        """Connects until the daemon is back, for as long as the session waits; a new session where the old one is gone."""
        resume = {"sessionId": before.session["id"], "secret": before.session["secret"]}
        waits_ms = max(before.session.get("resumeMs", 0), self._options.resume_ms)
        until, pause = time.monotonic() + waits_ms / 1000, _RETRY_S
        while True:
            try:
                return await self._connect(resume)
            except RemoteError as error:
                if error.code == _FORBIDDEN:
                    return await self._connect(None)
                if error.code != _OVERLOADED or time.monotonic() > until:
                    raise
            except (Disconnected, OSError):
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _RETRY_S_MAX)

    async def _connect(self, resume: dict[str, str] | None) -> _Link:
        while True:
            try:
                link = await self._connect_once(resume)
            except RemoteError as error:
                if not _moved_on(error):
                    raise
                continue  # The next connection is to the daemon that takes over.
            self._link = link
            if self.ended.done():
                self.ended = asyncio.get_running_loop().create_future()
            if link.session.get("resumed", {}).get("subscriptions") == 0:
                await self._subscribe_again(link)
            return link

    async def _connect_once(self, resume: dict[str, str] | None) -> _Link:
        given = self._options
        peer = await self._reach(started=resume is not None)
        params: dict[str, Any] = {"protocol": 1, "client": {"name": given.name, "version": given.version}}
        wanted = {
            "workspace": given.workspace,
            "role": given.role,
            "token": given.token,
            "policy": given.policy,
            "sessionName": given.session_name,
            "resumeMs": given.resume_ms or None,
            "resume": resume,
        }
        params.update({name: value for name, value in wanted.items() if value is not None})
        try:
            hello = await peer.request("hello", params)
        except BaseException:
            peer.close()
            raise
        peer.frame_bytes_max = int(hello.get("limits", {}).get("frameBytesMax") or peer.frame_bytes_max)
        return _Link(peer, hello)

    async def _reach(self, started: bool) -> Peer:
        """A connection to the socket; starts a daemon once where none listens and that is wanted."""
        paths, loop = self._options.paths, asyncio.get_running_loop()
        until = time.monotonic() + _REACH_S_MAX
        while True:
            try:
                _, peer = await loop.create_unix_connection(lambda: Peer(self._take, self._lost), paths.socket)
                return peer
            except BlockingIOError:
                if time.monotonic() > until:  # The queue of connections that wait to be taken is full.
                    raise Disconnected(f"the daemon at {paths.socket} takes no connections") from None
                await asyncio.sleep(_RETRY_S)
            except (FileNotFoundError, ConnectionRefusedError):
                if started or not self._options.autostart or self._options.workspace is None:
                    raise Disconnected(
                        f"no daemon listens at {paths.socket}; start one with: ringfence serve --detach"
                    ) from None
                started = True
                await start_daemon(paths, self._options.workspace)

    def _take(self, method: str, params: dict[str, Any]) -> None:
        if method == "session.closing" and params.get("reason") == "upgrade" and self._link is not None:
            self._leave(self._link)
        self._hear(method, params)

    def _lost(self, peer: Peer) -> None:
        link = self._link
        if self._closed or link is None or link.peer is not peer:
            return
        if self._options.resume_ms == 0:
            return self._end()
        task = asyncio.ensure_future(self._opened())
        task.add_done_callback(_seen)
        return None

    def _leave(self, link: _Link) -> None:
        """What begins from now on goes to the new daemon, which answers when the one of ``link`` has ended."""
        if self._link is link:
            self._leaving = link
        self._close_left()

    def _close_left(self) -> None:
        if self._leaving is not None and not self._leaving.peer.awaits:
            self._leaving.peer.close()

    async def _subscribe_again(self, link: _Link) -> None:
        for topics in list(self.subscriptions):
            await link.peer.request("events.subscribe", {"topics": list(topics)})
            self._hear("events.missed", {"topics": list(topics)})

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def _seen(done: asyncio.Future[Any]) -> None:
    """Takes note of an error that another part reports, so that asyncio does not."""
    if not done.cancelled():
        done.exception()


def _moved_on(error: RemoteError) -> bool:
    """Whether a daemon that hands over refused the request before doing anything."""
    return error.data.get("reason") == "upgrade"


def _not_begun(method: str, params: dict[str, Any], answer: Any) -> bool:
    """Whether a call was ended before it began, since its daemon hands over. A detached call keeps that result."""
    if method != "tools.call" or _detached(params):
        return False
    error = answer.get("error") or {}
    details = error.get("details") or {}
    return error.get("code") == "SHUTTING_DOWN" and details.get("reason") == "upgrade" and details.get("begun") is False


def _detached(params: dict[str, Any]) -> bool:
    return params.get("options", {}).get("detached") is True
