"""Agents as the façade gives them."""

import json

from tapebook.api.agents import profile_view
from tapebook.domain.agent import AgentProfile, ContextProfile, RiskCaps
from tapebook.settings.profiles import KEYS


def test_a_profile_has_the_keys_people_write() -> None:
    profile = AgentProfile(
        "btc-5m",
        ("BTC", "ETH"),
        engine="trend",
        cadence_ms=90_000,
        strategy="Follow.",
        avoid=("average down",),
        caps=RiskCaps(max_position_usd_e6=1_500_500_000, max_leverage=3),
        context=ContextProfile(horizon="swing"),
    )
    view = profile_view(4, profile)
    assert (view["name"], view["version"], view["engine"], view["broker"]) == ("btc-5m", 4, "trend", "paper")
    assert (view["watch"], view["every_minutes"], view["horizon"]) == (["BTC", "ETH"], 1.5, "swing")
    assert (view["max_position_usd"], view["max_leverage"], view["avoid"]) == (1500.5, 3, ["average down"])
    assert view.keys() == {"name", "version", "shadow", "removed", *KEYS}
    assert json.loads(json.dumps(view, allow_nan=False)) == view
