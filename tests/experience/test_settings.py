"""Settings say which values make no sense."""

import pytest

from tapebook.experience.settings import ExperienceSettings


def test_defaults() -> None:
    settings = ExperienceSettings()
    assert (settings.enabled, settings.max_memory_size, settings.context_window) == (True, 1_000, 20)
    assert settings.prior_trades == 10


@pytest.mark.parametrize(
    "wrong", [{"learning_rate": 0.0}, {"learning_rate": 1.5}, {"max_memory_size": 0}, {"context_window": 0}]
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="|".join(wrong)):
        ExperienceSettings(**wrong)  # type: ignore[arg-type]
