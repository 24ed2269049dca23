"""What the client raises. A call that fails is no error: it is a result with ``success`` False."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._results import Result


class RingfenceError(Exception):
    """The base of all errors of this package."""


class Disconnected(RingfenceError, ConnectionError):
    """The connection ended before the answer came, or no daemon listens."""


class RemoteError(RingfenceError):
    """The daemon refused a request. ``code`` is the number, ``name`` the word of docs/errors.md."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}
        self.name: str = str(self.data.get("code", code))


class ToolFailed(RingfenceError):
    """Raised by ``Result.unwrap()`` of a call that failed; ``code`` is the error code, such as ACCESS_DENIED."""

    def __init__(self, result: Result[Any]) -> None:
        error = result.error or {}
        super().__init__(f"{error.get('code', 'UNKNOWN')}: {error.get('message', '')}")
        self.result = result
        self.code: str = str(error.get("code", "UNKNOWN"))
