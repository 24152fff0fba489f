"""What nobody sees in a text, found with Python's own tables: an opinion that does not share the sanitiser's."""

import unicodedata

# Default_Ignorable_Code_Point of characters that are not of a format category, and glyphs that are blank.
BLANK_GLYPHS = {
    *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0),
    *(0x2800, 0xFFFC, 0x16FE4, 0x1D159),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
}
JOINERS = "\u200c\u200d"


def tagged(words: str) -> str:
    """Words in tag characters, which are shown nowhere and read by models."""
    return "".join(chr(0xE0000 + ord(letter)) for letter in words)


def selected(words: str) -> str:
    """Words in the variation selectors of the supplement, one for each byte."""
    return "".join(chr(0xE0100 + ord(letter)) for letter in words)


def is_unseen(char: str) -> bool:
    """Whether a character shows nothing, whatever stands beside it."""
    category = unicodedata.category(char)
    return category[0] == "C" or category in ("Zl", "Zp") or ord(char) in BLANK_GLYPHS or category == "Zs" != char


def unseen_in(text: str) -> list[str]:
    """The characters of a text that show nothing, line breaks and joiners inside words and emoji apart."""
    found = []
    for at, char in enumerate(text):
        before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
        joins = char in JOINERS and before and after and _can_be_joined(before) and _can_be_joined(after)
        if char not in "\n " and is_unseen(char) and not joins:
            found.append(f"U+{ord(char):04X}")
    return found


def longest_flood(text: str) -> int:
    """The most marks in a row."""
    longest = count = 0
    for char in text:
        count = count + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        longest = max(longest, count)
    return longest


def _can_be_joined(char: str) -> bool:
    """Letters and marks of scripts that join, and symbols; not those of Latin, Greek or Cyrillic."""
    name = unicodedata.name(char, "")
    return unicodedata.category(char)[0] in "LMS" and not name.startswith(("LATIN", "GREEK", "CYRILLIC"))
