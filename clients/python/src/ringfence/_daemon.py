"""Where this user's daemon is, and how one is started where none runs."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from ._errors import Disconnected


@dataclass(frozen=True)
class DaemonPaths:
    """Where a daemon listens and keeps its state, found as the command line finds it."""

    socket: str
    state: str

    @classmethod
    def find(cls, socket: str | os.PathLike[str] | None, state: str | os.PathLike[str] | None) -> DaemonPaths:
        """By argument, environment and convention (XDG)."""
        env = os.environ
        home = Path(env.get("HOME") or Path.home())
        state_home = Path(env.get("XDG_STATE_HOME") or home / ".local/state")
        state_dir = Path(state or env.get("RINGFENCE_STATE") or state_home / "ringfence").absolute()
        named = socket or env.get("RINGFENCE_SOCKET")
        if named:
            at = Path(named).absolute()
            beside = state is None and (at.parent / "operator.token").exists()
            return cls(str(at), str(at.parent if beside else state_dir))
        runtime = env.get("XDG_RUNTIME_DIR")
        usual = Path(runtime, "ringfence/ringfence.sock") if runtime and state is None else state_dir / "ringfence.sock"
        return cls(str(usual if usual.exists() else _published(state_dir) or usual), str(state_dir))

    def operator_token(self) -> str:
        """The token of the person who runs the daemon. Raises Disconnected where no daemon has run."""
        path = Path(self.state, "operator.token")
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            raise Disconnected(f"no daemon has run with the state directory {self.state} yet") from None


def _published(state: Path) -> Path | None:
    """The socket that the last daemon of a state directory wrote down, which may have had another environment."""
    try:
        socket = Path(json.loads((state / "endpoint.json").read_text())["socket"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # No daemon has run, or the file has another shape.
    return socket if socket.exists() else None


async def start_daemon(paths: DaemonPaths, workspace: str) -> None:
    """Starts a daemon that ends when it is not used any more, as ``ringfence call`` does. Raises Disconnected."""
    command = shlex.split(os.environ.get("RINGFENCE_COMMAND") or "ringfence")
    where = ["--socket", paths.socket, "--state", paths.state]
    try:
        # `stdio` starts a daemon where none runs and ends with its standard input.
        child = await asyncio.create_subprocess_exec(
            *command,
            "stdio",
            *where,
            cwd=workspace,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        raise Disconnected(
            f"no daemon listens at {paths.socket}, and `{command[0]}` is not on PATH to start one; "
            "install it with: npm install -g ringfence"
        ) from None
    _, told = await child.communicate()
    if child.returncode != 0:
        raise Disconnected(f"no daemon could be started: {told.decode(errors='replace').strip()}")
