"""Settings of experience say which values make no sense."""

import msgspec
import pytest

from tapebook.domain.agent import ExperienceSettings
from tapebook.domain.canonical import canonical_json


def test_defaults() -> None:
    settings = ExperienceSettings()
    assert (settings.enabled, settings.max_memory_size, settings.context_window) == (True, 1_000, 20)
    assert (settings.prior_trades, settings.neighbours) == (10, 25)
    # A profile is in the log, where no float may be.
    assert b"." not in canonical_json(settings)


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate_e4": 0},
        {"learning_rate_e4": 10_001},
        {"max_memory_size": 0},
        {"context_window": 0},
        {"neighbours": 0},
    ],
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="|".join(wrong)):
        msgspec.convert(wrong, ExperienceSettings)
