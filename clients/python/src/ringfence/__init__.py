"""Ringfence from Python: tool calls of agents, run in processes that the kernel confines.

    async with ringfence.connect(workspace=".") as rf:
        result = await rf.call("file_read", path="README.md")

https://github.com/ringfence/ringfence/blob/main/docs/how-to/python.md
"""

from __future__ import annotations

import os

from ._approvals import Answer, ApprovalHandler, ApprovalWatch
from ._client import BatchOptions, CallOptions, Client, Notification, Stream
from ._connection import Options
from ._daemon import DaemonPaths
from ._errors import Disconnected, RemoteError, RingfenceError, ToolFailed
from ._msgpack import MessageError
from ._results import BatchResult, Output, Result, ToolError, to_text, to_tool_message
from ._sync import SyncClient, SyncStream

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "ApprovalHandler",
    "ApprovalWatch",
    "BatchOptions",
    "BatchResult",
    "CallOptions",
    "Client",
    "Disconnected",
    "MessageError",
    "Notification",
    "Output",
    "RemoteError",
    "Result",
    "RingfenceError",
    "Stream",
    "SyncClient",
    "SyncStream",
    "ToolError",
    "ToolFailed",
    "connect",
    "connect_sync",
    "to_text",
    "to_tool_message",
]

def connect(
    workspace: str | os.PathLike[str] | None = None,
    *,
    socket: str | os.PathLike[str] | None = None,
    state: str | os.PathLike[str] | None = None,
    role: str | None = None,
    token: str | None = None,
    policy: str | None = None,
    session_name: str | None = None,
    resume_ms: int = 0,
    autostart: bool = True,
    name: str = "ringfence-python",
    version: str = __version__,
) -> Client:
    """A client for asyncio: ``async with ringfence.connect(workspace=".") as rf``, or ``rf = await connect(...)``.

    ``workspace`` is the folder to work in; where no daemon runs, one is started for it unless ``autostart`` is False.
    ``socket`` and ``state`` say where the daemon is; without them it is found as the command line finds it.
    ``role="operator"`` reads the operator's token from the state directory, unless ``token`` is given.
    ``resume_ms`` is how long session and calls wait for this client when the connection breaks; it then connects
    again by itself and goes on.
    """
    return Client(_options(workspace, socket, state, role, token, policy, session_name, resume_ms, autostart, name, version))


def connect_sync(
    workspace: str | os.PathLike[str] | None = None,
    *,
    socket: str | os.PathLike[str] | None = None,
    state: str | os.PathLike[str] | None = None,
    role: str | None = None,
    token: str | None = None,
    policy: str | None = None,
    session_name: str | None = None,
    resume_ms: int = 0,
    autostart: bool = True,
    name: str = "ringfence-python",
    version: str = __version__,
) -> SyncClient:
    """A connected client for programs without asyncio: ``with ringfence.connect_sync(workspace=".") as rf``."""
    return SyncClient(
        _options(workspace, socket, state, role, token, policy, session_name, resume_ms, autostart, name, version)
    )


def _options(
    workspace: str | os.PathLike[str] | None,
    socket: str | os.PathLike[str] | None,
    state: str | os.PathLike[str] | None,
    role: str | None,
    token: str | None,
    policy: str | None,
    session_name: str | None,
    resume_ms: int,
    autostart: bool,
    name: str,
    version: str,
) -> Options:
    paths = DaemonPaths.find(socket, state)
    if role == "operator" and token is None:
        token = paths.operator_token()
    folder = None if workspace is None else os.path.realpath(workspace)
    return Options(paths, folder, role, token, policy, session_name, resume_ms, autostart, name, version)
