"""One value, one sequence of bytes: UTF-8 JSON, sorted keys, no spaces, no floats.

Hashes of packets, events and archived bodies are taken over these bytes. A float has no single
text, so it is refused: numbers travel as integers of a named unit or as decimal strings.
"""

import hashlib
from typing import Any, NoReturn

import msgspec

_ENCODER = msgspec.json.Encoder(order="sorted")
_PACKER = msgspec.msgpack.Encoder()
_UNPACKER = msgspec.msgpack.Decoder()
_PACKED_FLOAT = b"\xcb"


def canonical(value: Any) -> bytes:
    """The canonical bytes of a value built from structs, mappings, sequences, text, integers, booleans and None."""
    content = _ENCODER.encode(value)
    try:
        packed = _PACKER.encode(value)
    except OverflowError:
        # An integer beyond 64 bits has no place there, and a float beside it is not seen.
        packed = None
    # MessagePack begins every float with this byte, also one that is not finite; text and integers may hold it too.
    if packed is None or (_PACKED_FLOAT in packed and _differ(content, packed)):
        _refuse_floats(msgspec.to_builtins(value), "$")
    return content


def sha256_hex(content: bytes) -> str:
    """The SHA-256 of some bytes as 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def short_id(*parts: str | int) -> str:
    """A 20-digit id that is a function of its parts, for things that must get the same id on every attempt."""
    return sha256_hex(canonical(parts))[:20]


def _float_seen(text: str) -> NoReturn:
    raise ValueError(f"{text} is a float")


_READER = msgspec.json.Decoder(float_hook=_float_seen)


def _differ(content: bytes, packed: bytes) -> bool:
    """Whether two encodings tell of a float; where they do not, the value need not be walked, which is much slower."""
    try:
        read = _READER.decode(content)
    except msgspec.ValidationError:
        return True
    # JSON writes null for a float that is not finite; MessagePack does not.
    return bool(read != _UNPACKER.decode(packed))


def _refuse_floats(value: Any, path: str) -> None:
    if isinstance(value, float):
        raise TypeError(f"a float at {path} has no canonical bytes: use an integer of a unit, or decimal text")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_floats(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_floats(item, f"{path}[{index}]")
