"""MessagePack as Ringfence speaks it: plain values, maps with string keys, no extension types.

The package ``msgpack`` does the same several times faster and is used where it is installed.
"""

from __future__ import annotations

import struct
from typing import Any, Callable

def _installed() -> Any:
    """The package msgpack, or None: the standard library alone is enough."""
    try:
        import msgpack  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        return None
    return msgpack


_fast = _installed()

#: Deepest nesting of a message. The daemon accepts less.
DEPTH_MAX = 256


class MessageError(ValueError):
    """A value that can't be sent, or bytes that are no message."""


def pack(value: Any) -> bytes:
    """The bytes of a value. Raises MessageError for what has no plain form."""
    if _fast is not None:
        _check_keys(value, 0)
        try:
            packed: bytes = _fast.packb(value, use_bin_type=True, strict_types=True)
            return packed
        except (TypeError, ValueError, OverflowError) as error:
            raise MessageError(f"can't be part of a message: {error}") from None
    out: list[bytes] = []
    try:
        _pack(value, out.append, 0)
    except UnicodeEncodeError as error:
        raise MessageError(f"can't be part of a message: {error}") from None
    return b"".join(out)


def unpack(data: bytes) -> Any:
    """The one value that ``data`` holds. Raises MessageError for anything else."""
    if _fast is not None:
        try:
            return _fast.unpackb(data, raw=False, strict_map_key=True)
        except (ValueError, RecursionError) as error:
            raise MessageError(f"not an acceptable message: {error}") from None
    reader = _Reader(data)
    try:
        value = reader.read(0)
    except (IndexError, struct.error):
        raise MessageError("not an acceptable message: it ends too early") from None
    except UnicodeDecodeError:
        raise MessageError("not an acceptable message: a text is not UTF-8") from None
    if reader.at != len(data):
        raise MessageError("not an acceptable message: bytes follow it")
    return value


def _check_keys(value: Any, depth: int) -> None:
    """Refuses keys that are no text, which msgpack would send."""
    if depth > DEPTH_MAX:
        raise MessageError(f"a message is nested over {DEPTH_MAX} levels deep")
    if type(value) is dict:
        for key, member in value.items():
            if type(key) is not str:
                raise MessageError(f"a key of a map must be a str, not {key!r}")
            _check_keys(member, depth + 1)
    elif type(value) is list:
        for item in value:
            _check_keys(item, depth + 1)


def _pack(value: Any, out: Callable[[bytes], None], depth: int) -> None:
    kind = type(value)
    if kind is str:
        data = value.encode()
        _pack_head(out, len(data), 0xA0, 31, (0xD9, 0xDA, 0xDB))
        out(data)
    elif kind is int:
        _pack_int(value, out)
    elif value is None or kind is bool:
        out(b"\xc0" if value is None else b"\xc3" if value else b"\xc2")
    elif kind is float:
        out(struct.pack(">Bd", 0xCB, value))
    elif kind in (bytes, bytearray):
        _pack_head(out, len(value), 0, -1, (0xC4, 0xC5, 0xC6))
        out(bytes(value))
    elif depth == DEPTH_MAX:
        raise MessageError(f"a message is nested over {DEPTH_MAX} levels deep")
    elif kind is dict:
        _pack_head(out, len(value), 0x80, 15, (None, 0xDE, 0xDF))
        for key, member in value.items():
            if type(key) is not str:
                raise MessageError(f"a key of a map must be a str, not {key!r}")
            _pack(key, out, depth)
            _pack(member, out, depth + 1)
    elif kind is list:
        _pack_head(out, len(value), 0x90, 15, (None, 0xDC, 0xDD))
        for item in value:
            _pack(item, out, depth + 1)
    else:
        raise MessageError(f"a {kind.__name__} can't be part of a message")


def _pack_head(
    out: Callable[[bytes], None], length: int, fix: int, fix_max: int, types: tuple[int | None, int, int]
) -> None:
    """The shortest head for a length: in the type's own byte, or in one, two or four bytes after it."""
    if length <= fix_max:
        out(bytes((fix | length,)))
    elif length <= 0xFF and types[0] is not None:
        out(bytes((types[0], length)))
    elif length <= 0xFFFF:
        out(struct.pack(">BH", types[1], length))
    else:
        out(struct.pack(">BI", types[2], length))


def _pack_int(value: int, out: Callable[[bytes], None]) -> None:
    if -32 <= value <= 127:
        out(struct.pack(">b", value) if value < 0 else bytes((value,)))
    elif 0 <= value <= 0xFFFFFFFF:
        out(struct.pack(">BI", 0xCE, value))
    elif -0x80000000 <= value < 0:
        out(struct.pack(">Bi", 0xD2, value))
    elif -(2**63) <= value < 2**63:
        out(struct.pack(">Bq", 0xD3, value))
    else:
        raise MessageError(f"{value} is beyond 64 bits")


#: Types with a fixed size: the format of what follows.
_FIXED = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
#: Types with a length: what they are, and the format of the length.
_SIZED = {
    0xC4: ("bin", ">B"),
    0xC5: ("bin", ">H"),
    0xC6: ("bin", ">I"),
    0xD9: ("str", ">B"),
    0xDA: ("str", ">H"),
    0xDB: ("str", ">I"),
    0xDC: ("array", ">H"),
    0xDD: ("array", ">I"),
    0xDE: ("map", ">H"),
    0xDF: ("map", ">I"),
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def read(self, depth: int) -> Any:
        byte = self.data[self.at]
        self.at += 1
        if byte <= 0x7F:
            return byte
        if byte >= 0xE0:
            return byte - 0x100
        if byte >= 0xA0 and byte <= 0xBF:
            return self._text(byte & 0x1F)
        if byte <= 0x8F:
            return self._map(byte & 0x0F, depth)
        if byte <= 0x9F:
            return self._array(byte & 0x0F, depth)
        if byte in _CONSTANTS:
            return _CONSTANTS[byte]
        if byte in _FIXED:
            return self._number(_FIXED[byte])
        if byte not in _SIZED:
            raise MessageError(f"not an acceptable message: type 0x{byte:02x}")
        kind, form = _SIZED[byte]
        length = self._number(form)
        if kind == "str":
            return self._text(length)
        if kind == "bin":
            return self._bytes(length)
        return self._map(length, depth) if kind == "map" else self._array(length, depth)

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def _bytes(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise IndexError
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def _text(self, length: int) -> str:
        return self._bytes(length).decode()

    def _array(self, length: int, depth: int) -> list[Any]:
        self._enter(length, depth)
        return [self.read(depth + 1) for _ in range(length)]

    def _map(self, length: int, depth: int) -> dict[str, Any]:
        self._enter(length, depth)
        fields: dict[str, Any] = {}
        for _ in range(length):
            key = self.read(depth + 1)
            if type(key) is not str:
                raise MessageError("not an acceptable message: a key is no text")
            fields[key] = self.read(depth + 1)
        return fields

    def _enter(self, length: int, depth: int) -> None:
        # Each item takes a byte at least, so that a length can't ask for more than has arrived.
        if length > len(self.data) - self.at:
            raise IndexError
        if depth >= DEPTH_MAX:
            raise MessageError(f"not an acceptable message: nested over {DEPTH_MAX} levels deep")
