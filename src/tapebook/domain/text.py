"""Text from outside made safe to show, its length in tokens, and addresses without their passwords.

Names of markets and tokens, documents, the prose of models, errors of servers and brokers, imported files: before
any of it stands in a packet, a prompt, a table or a page it goes through `sanitise`, so that a model reads what a
person sees. What is kept is decided by the table of this file and by the neighbours of a character, never by
Python's own tables: these change with its version, and the bytes of a packet may not.

1. A character is visible when Unicode 14.0 has it as a letter, mark, number, sign or symbol that leaves ink.
   Everything else (control, format, private use, surrogates, unassigned, fillers, selectors, tags, white space)
   becomes a blank.
2. A joiner stays where a script or an emoji needs it (`_NEEDED`): between Arabic letters, beside a virama of an
   Indic letter, between two emoji. The selector after an emoji goes without a blank.
3. At most four marks stand on one letter, and none on nothing.

What is newer than Unicode 14.0 is shown as a blank. A newer table would change packets, so it needs a new renderer.

Tokens are estimated by one fixed rule (`line_tokens`), not by a model's tokenizer: up to eight letters with the
underscore before them, up to three digits, or one other sign is one token, a line break one more. The estimate is a
little high and never changes, because the bytes of a packet and the borders of a chunk depend on it.
"""

import json
import re
from functools import lru_cache
from urllib.parse import unquote

MOST_MARKS = 4
"""Marks on one letter: pointed Hebrew, Tibetan stacks and the tones of Vietnamese need no more."""

QUOTES = str.maketrans(dict.fromkeys('"`“”„‟«»″＂', "'"))
"""Signs that could close a quotation, each as an apostrophe, which cannot."""

# Lengths of runs in base 36, from U+0000 on: + visible, ~ a mark that takes no room, - not shown.
_RUNS = (
    "-w+2n-y+c-1+gi~27-1~w+8-2+6-4+7-1+1-1+k-1+68~7+4m-1+12-2+1e-2+3-1~19+1~1+1~2+1~2+1~1-8+r-4+6-h+a~b+1-1+1a~l+g~1"
    "+2t~7-1+1~6+2~2+1~4+w-2+1~1+u~r-2+2h~b+1-e+17~9+7-2~1+o~4+1~9+1~3+1~5-2+f-1+p~3-2+1-1+b-5+v-9~8+16~o-1~w+1j~1+1"
    "~1+4~8+4~1+3~7+a~2+t~1+2-1+8-2+2-2+m-1+7-1+1-3+4-2~1+4~4-2+2-2+2~1+1-8+1-4+2-1+3~2-2+o~1-2~2+1-1+6-4+2-2+m-1+7-1"
    "+2-1+2-1+2-2~1-1+3~2-4~2-2~3-3~1-7+4-1+1-7+a~2+3~1+1-a~2+1-1+9-1+3-1+m-1+7-1+2-1+5-2~1+4~5-1~2+1-1+2~1-2+1-f+2~2"
    "-2+c-7+1~6-1~1+2-1+8-2+2-2+m-1+7-1+2-1+5-2~1+2~1+1~4-2+2-2+2~1-7~2+1-4+2-1+3~2-2+i-a~1+1-1+6-3+3-1+4-3+2-1+1-1+2"
    "-3+2-3+3-3+c-4+2~1+2-3+3-1+3~1-2+1-6+1-e+l-5~1+3~1+8-1+3-1+n-1+g-2~1+1~3+4-1~3-1~4-7~2-1+3-2+1-2+2~2-2+a-7+a~1+b"
    "-1+3-1+n-1+a-1+5-2~1+2~1+5-1~1+2-1+2~2-7+2-6+2-1+2~2-2+a-1+2-d~2+b-1+3-1+15~2+4~4-1+3-1+3~1+2-4+e~2-2+q-1~1+2-1"
    "+i-3+o-1+9-1+1-2+7-3~1-4+3~3-1~1-1+8-6+a-2+3-c+1c~1+2~7-4+8~8+d-11+2-1+1-1+5-1+o-1+1-1+a~1+2~9+1-2+5-1+1-1~6-2+a"
    "-2+4-w+o~2+r~1+1~1+1~1+e-1+10-4~e+1~5+1~2+5~b-1~10-1+8~1+6-1+d-11+19~4+1~6+1~2+2~2+p~2+4~3+g~4+d~1+2~2+6~1+f~1"
    "+14-1+1-5+1-2+3z-2+6g-1+4-2+7-1+1-1+4-2+15-1+4-2+x-1+4-2+7-1+1-1+4-2+f-1+1l-1+4-2+1v-2~3+t-3+q-6+2e-2+6-2+hs-1+s"
    "-3+2h-7+i~3+1-9+j~2+3-9+i~2-c+d-1+3-1~2-c+1g-2+1~7+8~1+2~b+9~1-2+a-6+a-6+b-5+a-6+2h-7+5~2+y~1+1-5+1y-a+v-1~3+4~2"
    "+3-4+2~1+6~3-4+1-3+16-2+5-b+18-4+q-6+b-3+1l~2+2~1-2+1k~1+1~7-1~1+1~1+2~8+6~a-2~1+a-6+a-6+e-2~v-1d~4+1c~1+1~5+1~1"
    "+5~1+a-3+r~9+b-1~2+w~4+2~2+1~3+1k~1+1~2+3~1+1~3+2-8+1c~8+2~2-3+f-3+1o-7+17-2+b-8~3+1~d+1~7+4~1+6~1+3~2+1-5+5c~1s"
    "+7q-2+6-2+12-2+6-2+8-1+1-1+1-1+1-1+v-2+1h-1+f-1+e-2+6-1+j-2+3-1+9-h+o-8+1b-h+2-2+r-1+d-3+x-f~x-f+3w-4+if-p+b-l"
    "+ps-1+oj-2+w-1+9k~3+2-5+19-1+1-5+1-2+1k-7+2-e~1+n-9+7-1+7-1+7-1+7-1+7-1+7-1+7-1+7-1~w+2m-y+q-1+2h-c+5y-q+c-5+15"
    "~4+i-1+2e-2~2+2t-5+17-1+1f-1+16-1+2c-c+1b-1+mlp-3+1j-9+9o-k+1b~4+1~a+w~2+28~2+6-8+5n-5+2-1+1-1+5-o+g~1+3~1+4~1+p"
    "~2+5~1-3+a-6+1k-8+1w~2-8+c-6~i+d~1+12~8+p~b+2-b+u-3~3+1c~1+2~4+2~2+g-1+b-4+7~1+p-1+15~6+2~2+2~2-9+3~1+8~1+1-2+a"
    "-2+w~1+1f~1+1~3+2~2+5~2+1~1+1-o+h~2+8~1-a+6-2+6-2+6-9+7-1+7-1+1o-4+39~1+2~1+4~1-2+a-6+8mc-c+n-4+1d-6is+a6-2+2y"
    "-12+7-c+5-5+1~1+o-1+5-1+1-1+2-1+2-1+3h-g+cd-2+1i-7+1-w+g-g+a-6~g+z-1+j-1+4-4+5-1+3r-4+4f-1+u-3+6-2+6-2+6-2+3-3+7"
    "-1+7-e+1-2+c-1+q-1+j-1+2-1+f-2+e-y+3f-5+3-4+19-3+2g-1+d-3+1-1b+19~1-3m+t-3+1d-f~1+r-4+10-9+u-5+12~5-5+u-1+11-4+e"
    "-16+4e-2+a-6+10-4+10-4+14-8+1g-b+c-1+f-1+7-1+2-1+b-1+f-1+7-1+2-1v+8n-9+m-a+8-o+6-1+16-1+9-1x+6-2+1-1+18-1+2-3+1"
    "-2+n-1+20-8+9-1c+j-1+2-5+x-3+r-5+1-1s+1k-4+k-2+1b~3-1~2-5~4+4-1+3-1+t-2~3-4~1+9-7+9-7+1s-w+11~2-4+c-9+1i-3+t-2+r"
    "-5+q-7+4-c+7-28+21-1j+1f-d+1f-7+16~4-8+a-86+v-1+16-1~2+1-2+2-26+14-8+m~b+9-m+i~4+4-12+s-k+n-9+1~1+1i~f+7-4+u~1+2"
    "~2+1-9~3+1d~4+2~2+2-1+4~1-d+p-7+a-6~3+10~5+1~8-1+i-8+z~1+3-9~2+1g~9+a~4+2~1+g-1+k-b+i-1+s~3+2~1+1~2+6~1-1t+7-1+1"
    "-1+4-1+f-1+b-6+1b~1+3~8-5+a-6~2+2-1+8-2+2-2+m-1+7-1+2-1+5-1~2+3~1+4-2+2-2+3-2+1-6+1-5+7-2~7-3~5-3v+1k~8+2~3+1~1"
    "+l-1+1~1+3-u+1f~6+1~1+4~2+1~2+4-8+a-4m+1e~4-2+4~2+1~2+r~2-y+1f~8+2~1+1~2+4-b+a-6+d-j+17~1+1~1+2~6+1~1+2-6+a-1i+r"
    "-2~3+2~4+1~5-4+n-55+1b~9+1~2+1-2s+2b-c+8-2+1-2+8-1+2-1+u-1+2-2~2+1~1+4~1+3-9+a-1y+8-2+16~4-2~2+4~1+4-r+1~a+14~6"
    "+2~4+8~1-8+1~6+2~3+1a~d+1~2+9-d+21-7b+9-1+12~7-1~6+1~1+6-a+t-3+w-2~m-1+1~7+1~2+1~2-21+7-1+2-1+12~6-3~1-1~2-1~7+1"
    "~1-8+a-6+6-1+2-1+11-1~2-1+2~1+1~1+1-7+a-8m+j~2+4-53+1-f+1e-d+pn-2u+33-1+5-b+5g-218+2r-d+tr-34h+g7-6nt+ft-7+v-1+a"
    "-4+29-1+a-6+u-2~5+1-a+1c~7+f-a+a-1+7-1+l-5+j-j4+2j-2t+23-4~1+1k-7~4+d-1s+4-c+2-e+4qg-8+ye-16+9-6w7+4-1+7-1+2-1"
    "+83-19+3-h+4-8+b0-1s4+2z-5+d-3+9-7+a-2+1~2+1-3mo~1a-2~n-9+38-1o+6u-a+13-2+1c-1+d~3+9-8~8+2~7+u~4+1p-l+1u~3+1-4a"
    "+k-c+2f-9+p-3r+2d-1+1z-1+2-2+1-2+2-2+4-1+c-1+1-1+7-1+1t-1+4-2+8-1+7-1+s-1+4-1+5-1+1-3+7-1+9g-2+84-2+fm~1j+4~1e+8"
    "~1+e~1+7-f~5-1~f-uo+v-69~7-1~h-2~7-1~2-1~5-5x+19-3~7+7-2+a-4+2-8w+u~1-h+18~4+a-5+1-yo+7-1+4-1+2-1+f-1+5h-2+9~7"
    "-15+1w~7+1-4+a-4+2-lt+1w-24+1p-5e+4-1+r-1+2-1+1-2+1-1+a-1+4-1+1-1+1-6+1-4+1-1+1-1+1-1+3-1+2-1+1-2+1-1+1-1+1-1+1"
    "-1+1-1+2-1+1-2+4-1+7-1+4-1+4-1+1-1+a-1+h-5+3-1+5-1+h-1g+2-7i+18-4+2s-c+f-2+f-1+f-1+11-a+4u-1k+t-d+18-4+9-7+2-e+6"
    "-4a+rc-5+g-3+d-3+38-c+2h-7+c-4+1-f+c-4+1k-8+a-6+14-8+u-2+2-26+9g-c+e-2+5-3+5-3+7-9+t-3+b-5+6-a+a-6+8-8+7-9+43-1"
    "+1j-11+a-sm+wyo-w+37d-7+66-2+4g2-e+5rl-2e7+f2-15u+3t7-jk51"
)

_INDIC = range(0x0900, 0x0D80, 0x80)
"""Nine scripts from Devanagari to Malayalam, with their letters at the same places; Sinhala is the tenth."""

# Visible characters whose neighbours matter: each gets a letter for its kind.
_LETTERS = {
    "A": ((0x0620, 0x063F), (0x0641, 0x064A), (0x066E, 0x066F), (0x0671, 0x06D3), (0x06FA, 0x06FC), (0x0750, 0x077F)),
    "I": (
        *((block + 0x05, block + 0x39) for block in _INDIC),
        *((block + 0x58, block + 0x61) for block in _INDIC),
        *((0x0972, 0x097F), (0x09F0, 0x09F1), (0x0A72, 0x0A74), (0x0B71, 0x0B71), (0x0D7A, 0x0D7F), (0x0D85, 0x0DC6)),
    ),
    "E": ((0x2190, 0x2BFF), (0x1F000, 0x1FAFF)),
    # Signs that are an emoji only with a selector behind them.
    "K": tuple([(ord(sign), ord(sign)) for sign in "#*0123456789©®‼⁉™ℹ〰〽㊗㊙"]),
}
_MARKS = {
    "a": range(0x064B, 0x0653),
    "n": (0x093C, 0x09BC, 0x0A3C, 0x0ABC, 0x0B3C, 0x0CBC),
    "v": (*(block + 0x4D for block in _INDIC), 0x0DCA),
}
_UNSEEN = {
    "j": (0x200C,),
    "J": (0x200D,),
    "s": (0xFE0E, 0xFE0F),
    "b": (0x00A0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000),
}


def _character_kinds() -> str:
    """The kind of every character, at its code point."""
    table = bytearray()
    for kind, length in re.findall(r"([-+~])([0-9a-z]+)", _RUNS):
        table += kind.encode() * int(length, 36)
    for kind, ranges in _LETTERS.items():
        for first, last in ranges:
            table[first : last + 1] = table[first : last + 1].replace(b"+", kind.encode())
    for kind, places in (_MARKS | _UNSEEN).items():
        for at in places:
            table[at] = ord(kind)
    table[ord(" ")] = ord(" ")
    return table.decode()


_CHARACTER_KINDS = _character_kinds()
# Joiners where they belong, as kinds: an Arabic letter may have a vowel sign, an Indic one a nukta.
_NEEDED = r"(?:(?<=A)|(?<=Aa))j(?=A)|(?:(?<=Iv)|(?<=Inv))[jJ](?=I)|(?<=I)J(?=v)|(?:(?<=E)|(?<=Es))J(?=E)"
_MARK = "[~anv]"
_HIDDEN = rf"(?:[-bs]|(?=[jJ])(?!{_NEEDED})[jJ])"
_CHANGED = re.compile(
    rf"(?P<dropped>(?<=[EK])s|(?:^|(?<= )){_MARK}+|(?<={_MARK}{{{MOST_MARKS}}}){_MARK}+)"
    # A mark behind something that is not shown would stand on the blank.
    rf"|(?P<blank>(?:{_HIDDEN}+{_MARK}*)+)"
)
_UNUSUAL = re.compile("[^ +AIEK]")
_STRANGE = re.compile(rf"(?<![EK])s|-|(?=[jJ])(?!{_NEEDED})[jJ]")
_BREAKS = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def sanitise(text: str) -> str:
    """A text as one line of what is seen: all else is a blank, and a run of it one blank."""
    # Of ASCII, what can be printed is what is seen, in every version of Python.
    if text.isascii() and text.isprintable():
        return text
    kinds = text.translate(_CHARACTER_KINDS)
    if _UNUSUAL.search(kinds) is None:
        return text
    parts, at = [], 0
    for found in _CHANGED.finditer(kinds):
        parts += [text[at : found.start()], " " if found["blank"] else ""]
        at = found.end()
    return "".join([*parts, text[at:]]) if parts else text


def sanitise_lines(text: str) -> list[str]:
    """The lines of a text, each sanitised; tabs are four blanks, and blank lines at its ends go."""
    found = [sanitise(line.replace("\t", "    ")).rstrip() for line in _BREAKS.split(text)]
    while found and not found[0]:
        found.pop(0)
    while found and not found[-1]:
        found.pop()
    return found


def short_line(text: str, most: int) -> str:
    """A text as one line of at most so many characters, with single blanks between its words."""
    # Nobody goes through a megabyte to show a line of it.
    seen = text[: 8 * most]
    if not (seen.isascii() and seen.isprintable()):
        seen = sanitise(seen)
    seen = " ".join(seen.split())
    return seen if len(seen) <= most else truncate(seen, most)


def truncate(text: str, most: int) -> str:
    """The beginning of a sanitised text; a joiner is not left behind where what it joined is gone."""
    return text if len(text) <= most else text[:most].rstrip(" \u200c\u200d")


def has_hidden_characters(text: str) -> bool:
    """Whether a text has invisible characters; blanks of any width are none."""
    return not (text.isascii() and text.isprintable()) and _STRANGE.search(text.translate(_CHARACTER_KINDS)) is not None


def escape_hidden_characters(text: str) -> str:
    """A JSON text with what is not seen written as `\\uXXXX`: the same value, and nothing that steers a terminal."""
    if text.isascii() and "\x7f" not in text:
        return text
    parts, at = [], 0
    for found in _STRANGE.finditer(text.translate(_CHARACTER_KINDS)):
        # Between its values JSON has line breaks; inside of them they are escaped already.
        if text[found.start()] != "\n":
            parts += [text[at : found.start()], json.dumps(text[found.start()])[1:-1]]
            at = found.end()
    return "".join([*parts, text[at:]])


def quote_line(text: str, most: int = 240) -> str:
    """A text as one line in double quotes, which it cannot close."""
    return f'"{short_line(text, most).translate(QUOTES)}"'


def quote_block(text: str) -> str:
    """A text of several lines, each behind `>`."""
    return "\n".join(f"> {line}".rstrip() for line in sanitise_lines(text))


def safe_name(text: str, most: int = 60) -> str:
    """A name from outside, such as that of a token, as one word: short, and without anything that could be markup."""
    return re.sub(r"[^\w.:/@+*-]", "_", sanitise(text[:most])) or "_"


def plural(count: int, noun: str, many: str = "") -> str:
    """A count with its noun: `1 trade`, `2 trades`, `1,000 entries` where `many` says what an s does not."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


_PIECE = r"_?[A-Za-z]{1,8}+|[0-9]{1,3}+|[^\sA-Za-z0-9]"
PIECE = re.compile(_PIECE)
"""One token as the estimator counts them."""


@lru_cache(maxsize=20_000)
def line_tokens(line: str) -> int:
    """The estimate for one line and its break."""
    # Cached, since most bars of a packet were in the one before.
    return len(PIECE.findall(line)) + 1


def text_tokens(text: str) -> int:
    """The estimate for a text."""
    return sum(map(line_tokens, text.split("\n")))


def truncate_to_tokens(line: str, tokens: int) -> str:
    """The beginning of a line that takes at most so many tokens, its break not counted."""
    found = _first_pieces(tokens).match(line)
    return line if found is None or PIECE.search(line, found.end()) is None else line[: found.end()]


@lru_cache(maxsize=64)
def _first_pieces(tokens: int) -> re.Pattern[str]:
    """So many pieces with nothing but blanks before each; a piece gives none of its signs to the next one."""
    return re.compile(rf"(?:\s*+(?:{_PIECE})){{{tokens}}}+")


REDACTED = "…"

# A password may hold anything, also what should have been written as %40: up to the last @ of the line all is hidden.
_DATABASE_URL = re.compile(r"(postgres(?:ql)?://).*@", re.IGNORECASE)
_OTHER_URL = re.compile(r"(://)[^\s/@]+@")
_PASSWORD_PARAMETER = re.compile(r"((?:ssl)?password\s*=\s*)(?:'[^']*'|[^\s&'\"]+)", re.IGNORECASE)
_QUOTED_PIECE = re.compile(r"""(["'])(.+?)\1""")


def redact_passwords(text: str) -> str:
    """A text with the user and the password of every address in it taken out."""
    text = _DATABASE_URL.sub(rf"\1{REDACTED}@", text)
    return _PASSWORD_PARAMETER.sub(rf"\1{REDACTED}", _OTHER_URL.sub(rf"\1{REDACTED}@", text))


def redact_driver_message(url: str, text: str) -> str:
    """What a driver says about an address: it may quote pieces of a password that it took for a host or a port."""
    secret = url.partition("://")[2].rpartition("@")[0]
    user, _, _ = secret.partition(":")
    known = f"{secret} {unquote(secret)}"

    def redact_piece(quoted: re.Match[str]) -> str:
        mark, piece = quoted[1], quoted[2]
        before, _, host = piece.rpartition("@")
        if before:
            return f"{mark}{REDACTED}@{host}{mark}"
        return f"{mark}{REDACTED}{mark}" if piece in known and piece != user else quoted[0]

    return _QUOTED_PIECE.sub(redact_piece, redact_passwords(text))
