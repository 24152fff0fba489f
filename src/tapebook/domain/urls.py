"""Addresses as they may be shown and kept: without the user and the password in them."""

import re
from urllib.parse import unquote

HIDDEN = "…"

# A password may hold anything, also what should have been written as %40: up to the last @ of the line all is hidden.
_DATABASE = re.compile(r"(postgres(?:ql)?://).*@", re.IGNORECASE)
_OTHER = re.compile(r"(://)[^\s/@]+@")
_PARAMETER = re.compile(r"((?:ssl)?password\s*=\s*)(?:'[^']*'|[^\s&'\"]+)", re.IGNORECASE)
_QUOTED = re.compile(r"""(["'])(.+?)\1""")


def without_password(text: str) -> str:
    """A text with the user and the password of every address in it taken out."""
    text = _DATABASE.sub(rf"\1{HIDDEN}@", text)
    return _PARAMETER.sub(rf"\1{HIDDEN}", _OTHER.sub(rf"\1{HIDDEN}@", text))


def without_password_of(url: str, text: str) -> str:
    """What a driver says about an address: it may quote pieces of a password that it took for a host or a port."""
    secret = url.partition("://")[2].rpartition("@")[0]
    user, _, _ = secret.partition(":")
    known = f"{secret} {unquote(secret)}"

    def hidden(quoted: re.Match[str]) -> str:
        mark, piece = quoted[1], quoted[2]
        before, _, host = piece.rpartition("@")
        if before:
            return f"{mark}{HIDDEN}@{host}{mark}"
        return f"{mark}{HIDDEN}{mark}" if piece in known and piece != user else quoted[0]

    return _QUOTED.sub(hidden, without_password(text))
