"""Indexes letters, a few at a time; run as `python -m tests.search.appender SLOT FILE` to be killed."""

import sys

from tests.search.sample_docs import VOCABULARY, Paper, indexed, paper


def letters(count: int) -> list[Paper]:
    """One document that grows, and others that stay."""
    made = []
    for seq in range(1, count + 1):
        words = " ".join(VOCABULARY[(seq * 7 + at) % len(VOCABULARY)] for at in range(9))
        grown = "\n\n".join(f"## entry {at}\n\nwritten at {at}" for at in range(max(1, seq - 20), seq + 1))
        text = grown if seq % 3 == 0 else f"# entry {seq}\n\n{words}"
        made.append(paper(seq, "journal.md" if seq % 3 == 0 else f"{seq}.md", text))
    return made


if __name__ == "__main__":
    slot, path = sys.argv[1:]
    with indexed(slot, path=path) as index:
        papers = letters(400)
        print("ready", flush=True)
        for at in range(0, 390, 10):
            index.index(papers[:at])
