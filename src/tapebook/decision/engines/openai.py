"""Asks a model of OpenAI, or of any server that speaks its chat API: Ollama, vLLM, OpenRouter and others."""

from tapebook.decision.model_engine import ModelEngine
from tapebook.decision.port import Engine, EngineTerms


def create(terms: EngineTerms) -> Engine:
    """The adapter's entry point."""
    return ModelEngine(terms.asker("openai", terms.model), max_usd_e6=terms.max_usd_e6)
