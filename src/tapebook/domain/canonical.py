"""One value, one sequence of bytes: UTF-8 JSON, sorted keys, no spaces, no floats.

Hashes of packets, events and archived bodies are taken over these bytes. A float has no single
text, so it is refused: numbers travel as integers of a named unit or as decimal strings.
"""

import hashlib
import struct
from typing import Any

import msgspec

CONTENT_PREFIX = "sha256/"
"""The beginning of every key that is made from content."""

_ENCODER = msgspec.json.Encoder(order="sorted")
_PACKER = msgspec.msgpack.Encoder()
_PACKED_FLOAT = b"\xcb"
_FLOAT = struct.Struct(">d")


def canonical_json(value: Any) -> bytes:
    """The canonical bytes of a value built from structs, mappings, sequences, text, integers, booleans and None."""
    content = _ENCODER.encode(value)
    try:
        packed = _PACKER.encode(value)
    except OverflowError:
        # An integer beyond 64 bits has no place there, and a float beside it is not seen.
        packed = None
    # MessagePack begins every float with this byte, also one that is not finite; text and integers may hold it too.
    if packed is None or (_PACKED_FLOAT in packed and _may_hold_float(content, packed)):
        _refuse_floats(msgspec.to_builtins(value), "$")
    return content


def sha256_hex(content: bytes) -> str:
    """The SHA-256 of some bytes as 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def content_key(content: bytes) -> str:
    """The key of content in an archive: its hash, spread over folders."""
    digest = hashlib.sha256(content).hexdigest()
    return f"{CONTENT_PREFIX}{digest[:2]}/{digest}"


def short_id(*parts: str | int) -> str:
    """A 20-digit id that is a function of its parts, for things that must get the same id on every attempt."""
    return hashlib.sha256(canonical_json(parts)).hexdigest()[:20]


def _may_hold_float(content: bytes, packed: bytes) -> bool:
    """Whether what follows such a byte, read as a float, stands in the JSON too; if not, the byte is of something else.

    JSON writes null for a float that is not finite. To walk through the value, which is sure, is much slower.
    """
    at = packed.find(_PACKED_FLOAT)
    while 0 <= at < len(packed) - _FLOAT.size:
        if _ENCODER.encode(_FLOAT.unpack_from(packed, at + 1)[0]) in content:
            return True
        at = packed.find(_PACKED_FLOAT, at + 1)
    return False


def _refuse_floats(value: Any, path: str) -> None:
    if isinstance(value, float):
        raise TypeError(f"a float at {path} has no canonical bytes: use an integer of a unit, or decimal text")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_floats(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_floats(item, f"{path}[{index}]")
