"""The JSON schema of a reply, made from the types that `parse` reads: there is one truth about what a reply is.

Providers take a part of JSON Schema only: every field required, nothing else allowed, no references
and no bounds. What the bounds are, the system text says and `parse` enforces.
"""

from typing import Any

import msgspec

from tapebook.decision.parse import _WireReply
from tapebook.domain.canonical import canonical, sha256_hex


def _strict(node: Any, definitions: dict[str, Any]) -> Any:
    """A schema with references written out, defaults and titles left out, and all fields required."""
    if isinstance(node, list):
        return [_strict(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _strict(definitions[node["$ref"].rpartition("/")[2]], definitions)
    kept = {name: _strict(value, definitions) for name, value in node.items() if name not in ("default", "title")}
    if "properties" in kept:
        kept["required"] = list(kept["properties"])
    if "enum" in kept:
        kept["type"] = "string"
    return kept


def _reply_schema() -> dict[str, Any]:
    whole = msgspec.json.schema(_WireReply)
    schema: dict[str, Any] = _strict({"$ref": whole["$ref"]}, whole["$defs"])
    return schema


SCHEMA = _reply_schema()
SCHEMA_SHA256 = sha256_hex(canonical(SCHEMA))
