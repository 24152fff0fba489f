"""Asks a model of Anthropic, or of a server that speaks its messages API."""

from tapebook.decision.model_engine import ModelEngine
from tapebook.decision.port import Engine, EngineTerms


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return ModelEngine(terms.asker("anthropic", terms.model), max_usd_e6=terms.max_usd_e6)
