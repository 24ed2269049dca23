"""MessagePack, by the standard library and by the package msgpack: what the daemon writes is read, and the reverse."""

from __future__ import annotations

import json
import struct
import unittest
from pathlib import Path
from typing import Any
from unittest.mock import patch

from support import given

from ringfence import MessageError, _msgpack

CODECS = [None, *filter(None, [_msgpack._fast])]


def each_codec(test: Any) -> Any:
    """Runs a test with the codec of the standard library, and with msgpack where it is installed."""

    def run(self: unittest.TestCase) -> None:
        for codec in CODECS:
            with self.subTest(codec=getattr(codec, "__name__", "standard library")), patch.object(_msgpack, "_fast", codec):
                test(self)

    return run


class Messages(unittest.TestCase):
    @each_codec
    def test_what_the_daemon_writes_is_read_and_written_back(self) -> None:
        samples = json.loads(Path(given("MESSAGES")).read_text())
        self.assertGreater(len(samples), 20)
        for sample in samples:
            value = _msgpack.unpack(bytes.fromhex(sample["hex"]))
            self.assertEqual(value, sample["value"])
            self.assertEqual(_msgpack.unpack(_msgpack.pack(value)), sample["value"])

    @each_codec
    def test_lengths_at_the_edges_of_each_form(self) -> None:
        for size in (0, 15, 16, 31, 32, 255, 256, 65535, 65536):
            for value in ("x" * size, b"y" * size, [1] * size, {str(it): it for it in range(size)}):
                self.assertEqual(_msgpack.unpack(_msgpack.pack(value)), value)
        for number in (0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**53, -1, -32, -33, -(2**31), -(2**31) - 1):
            self.assertEqual(_msgpack.unpack(_msgpack.pack(number)), number)

    @each_codec
    def test_what_has_no_plain_form_is_refused(self) -> None:
        endless: list[Any] = []
        endless.append(endless)
        for value in (object(), {1: 2}, 2**70, {"a": {1, 2}}, "\ud800", (1,), endless):
            with self.assertRaises(MessageError):
                _msgpack.pack(value)

    @each_codec
    def test_bytes_that_are_no_message_are_refused_and_take_no_memory(self) -> None:
        for data in (b"", b"\xc1", b"\x81", b"\x01\x01", b"\xa2\xff\xfe", b"\x81\x01\x02", struct.pack(">BI", 0xDD, 2**31), b"\x91" * 5000):
            with self.assertRaises(MessageError):
                _msgpack.unpack(data)
