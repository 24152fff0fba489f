"""Citations as programs read them."""

from tapebook.domain.canonical import canonical_json
from tapebook.domain.packet import Citation

MANUAL = Citation("agents/agent_btc_5m/TRADING_MANUAL.md", 42, 58, 8_200, "Never trade…", "fts", "c1", "ab" * 32)


def test_shape_of_the_specification() -> None:
    assert MANUAL.to_dict() == {
        **{"path": "agents/agent_btc_5m/TRADING_MANUAL.md", "startLine": 42, "endLine": 58},
        **{"score": 0.82, "snippet": "Never trade…", "source": "fts"},
        **{"id": "c1", "contentSha256": "ab" * 32},
    }


def test_citation_has_canonical_bytes() -> None:
    assert b'"score_e4":8200' in canonical_json(MANUAL)
