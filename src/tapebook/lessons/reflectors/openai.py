"""Has a model write the note through the chat completions API of OpenAI, or of a server that speaks it."""

from tapebook.lessons.model_reflector import ModelReflector
from tapebook.lessons.reflection import Reflector, ReflectorTerms


def create(terms: ReflectorTerms) -> Reflector:
    """The adapter's entry point."""
    return ModelReflector(terms.asker("openai", terms.model), max_usd_e6=terms.max_usd_e6)
