"""The long connection's frame: nine protobuf fields, written and read by hand.

SeqID 1, LogID 2, service 3, method 4, headers 5 {key 1, value 2}, payload_encoding 6, payload_type 7, payload 8,
LogIDNew 9. The first four are required, and integers are varints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

CONTROL, DATA = 0, 1
_VARINT, _BYTES = 0, 2


class BadFrame(ValueError):
    """The bytes are no frame."""


@dataclass(frozen=True)
class Frame:
    method: int
    headers: dict[str, str]
    payload: bytes = b""
    service: int = 0
    seq_id: int = 0
    log_id: int = 0
    strings: dict[int, str] = field(default_factory=dict)
    """payload_encoding, payload_type and LogIDNew by their numbers, where they were said."""

    def encode(self) -> bytes:
        out = bytearray()
        for number, value in ((1, self.seq_id), (2, self.log_id), (3, self.service), (4, self.method)):
            out += _varint(number << 3 | _VARINT) + _varint(value)
        for key, text in self.headers.items():
            out += _chunk(5, _chunk(1, key.encode()) + _chunk(2, text.encode()))
        for number in (6, 7):
            if number in self.strings:
                out += _chunk(number, self.strings[number].encode())
        if self.payload:
            out += _chunk(8, self.payload)
        if 9 in self.strings:
            out += _chunk(9, self.strings[9].encode())
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> Frame:
        numbers: dict[int, int] = {}
        headers: dict[str, str] = {}
        payload = b""
        strings: dict[int, str] = {}
        try:
            for number, value in _fields(data):
                if isinstance(value, int):
                    numbers[number] = value
                elif number == 5:
                    pair = dict(_fields(value))
                    headers[_text(pair.get(1, b""))] = _text(pair.get(2, b""))
                elif number == 8:
                    payload = value
                else:
                    strings[number] = _text(value)
        except (IndexError, UnicodeDecodeError) as error:
            raise BadFrame(str(error)) from error
        if 4 not in numbers:
            raise BadFrame("a frame must have a method")
        return cls(
            method=numbers[4],
            headers=headers,
            payload=payload,
            service=numbers.get(3, 0),
            seq_id=numbers.get(1, 0),
            log_id=numbers.get(2, 0),
            strings=strings,
        )


def _text(value: int | bytes) -> str:
    if isinstance(value, int):
        raise BadFrame("a number where a text should be")
    return value.decode()


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        if key & 7 == _VARINT:
            value, at = _read_varint(data, at)
            yield key >> 3, value
        elif key & 7 == _BYTES:
            length, at = _read_varint(data, at)
            if at + length > len(data):
                raise BadFrame("the frame ends too early")
            yield key >> 3, data[at : at + length]
            at += length
        else:
            raise BadFrame(f"wire type {key & 7}")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise BadFrame("a number too long")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _chunk(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data
