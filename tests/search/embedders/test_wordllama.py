"""The local model: its own numbers, without its own code, and the same in every process."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from tapebook.search.embedders.wordllama import DIMENSION, create
from tapebook.search.index import EmbedderTerms
from tapebook.search.store import cosine_similarities, quantise

ROOT = Path(__file__).parents[3]


def test_sums_do_not_depend_on_their_order() -> None:
    embedder = create(EmbedderTerms())
    words = ["margin", "funding", "leverage", "stop", "feed", "journal"]
    one, other = embedder.embed_documents([" ".join(words), " ".join(reversed(words))])
    assert (one == other).all() and one.shape == (DIMENSION,) and one.any()


def test_like_is_nearer_than_unlike() -> None:
    embedder = create(EmbedderTerms())
    made = quantise(embedder.embed_documents(["the price of bitcoin fell", "how to bake bread"]))
    near = cosine_similarities(made, quantise(embedder.embed_question("bitcoin prices dropped")[np.newaxis])[0])
    assert near[0] > 0.5 > near[1]


def test_neither_its_code_nor_threads_are_loaded() -> None:
    """Its code sets up logging for everybody; threads do not survive a fork."""
    script = (
        "import sys, threading\n"
        "from tapebook.search.index import EmbedderTerms\n"
        "from tapebook.search.embedders.wordllama import create\n"
        "create(EmbedderTerms()).embed_documents(['a text'] * 50)\n"
        "print(sorted({'wordllama', 'requests', 'logging.handlers'} & set(sys.modules)), threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env={"PYTHONPATH": "src"}, capture_output=True)
    assert (done.stdout.decode().strip(), done.stderr) == ("[] 1", b"")


def test_it_knows_words_and_no_letters_put_together() -> None:
    embedder = create(EmbedderTerms())
    assert all(map(embedder.knows_word, ("internet", "connection", "liquidation", "offline", "Reboot")))
    assert not any(map(embedder.knows_word, ("asdf", "zzzz", "xjdxkxwqn", "qwertyuiop", "xyzzyplugh", "", "q", "🚀")))
