"""What servers give that are broken or mean harm, by the name of the model that is asked."""

import gzip
from collections.abc import Callable

from tests.llm.model_server import Said, Seen, error, openai_chat, trade_by

KEY = "sk-very-secret-0123456789"

HOSTILE = {
    **{"drips": "timeout", "counts-too-much": "server_error", "counts-below-zero": "server_error"},
    **{"deep": "server_error", "deep-error": "server_error", "bomb": "server_error", "large": "server_error"},
    **{"echoes-an-error": "rejected", "echoes-a-refusal": "unauthorised"},
}
# Servers that may have billed the prompt although nothing of what they sent can be used.
BILLED = {"drips", "counts-too-much", "counts-below-zero", "deep", "bomb", "large"}


def many_tempered(*, large: int, seconds_a_byte: float) -> Callable[[Seen], Said]:
    """A server whose models are each of another temper; those it does not know are good, and trade."""
    answers = {temper: hostile(temper, large=large, seconds_a_byte=seconds_a_byte) for temper in HOSTILE}

    def say(seen: Seen) -> Said:
        reply = trade_by(seen.body["messages"][-1]["content"])
        if seen.body["model"] == "echoes-in-its-answer":
            reply = reply.replace("it goes up", KEY)
        return answers.get(seen.body["model"], Said(body=openai_chat(reply)))

    return say


def hostile(temper: str, *, large: int, seconds_a_byte: float) -> Said:
    """What a server of that temper gives, and how much of it."""
    chat, used = openai_chat("{}"), {"prompt_tokens": 10, "completion_tokens": 10}
    bomb = gzip.compress(bytes(large), 1)
    given = {
        "drips": Said(body=b" " * 10_000, seconds_a_byte=seconds_a_byte),
        "counts-too-much": Said(body=chat | {"usage": used | {"completion_tokens": 2**64}}),
        "counts-below-zero": Said(body=chat | {"usage": used | {"prompt_tokens": -5}}),
        "deep": Said(body=b'{"choices":' + b"[" * 200_000),
        "deep-error": Said(500, b'{"error":' * 100_000),
        "bomb": Said(body=bomb, headers={"content-encoding": "gzip"}),
        "large": Said(body=b'{"choices":"' + b"x" * large),
        "echoes-an-error": Said(400, error(f"the key {KEY} may not do this")),
        "echoes-a-refusal": Said(401, error(f"wrong key: {KEY}")),
    }
    return given[temper]
