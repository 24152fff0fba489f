"""Has a model of Anthropic write the note, or a server that speaks its messages API."""

from tapebook.lessons.model_reflector import ModelReflector
from tapebook.lessons.reflection import Reflector, ReflectorTerms


def create(terms: ReflectorTerms) -> Reflector:
    """The adapter's entry point."""
    return ModelReflector(terms.asker("anthropic", terms.model), max_usd_e6=terms.max_usd_e6)
