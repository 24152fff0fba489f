"""The events of this room: layers were rolled up, somebody wrote values, what is too old was dropped."""

from typing import Literal, TypeVar

import msgspec

from tapebook.horizons.aggregate import Aggregate
from tapebook.horizons.layers import ContextLayer
from tapebook.horizons.period import Kind
from tapebook.log import Draft, Event

Body = TypeVar("Body", bound=msgspec.Struct)

Origin = Literal["rollup", "curated", "observed", "live"]
"""Who wrote a value: the roll-up; a person, above the leaf layers; whoever saw it, in the leaf layers; or nobody: what
is live is computed when it is asked for."""


class Told(msgspec.Struct, frozen=True):
    """Values of one timeframe by key, each as JSON text; `null` when the key has none any more."""

    layer: ContextLayer
    timeframe: str
    values: dict[str, str]


class Fold(msgspec.Struct, frozen=True):
    """The new sum of a day, a month or a year."""

    kind: Kind
    timeframe: str
    whole: Aggregate


class LayerRolled(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a roll-up changed, and nothing else.

    `until` says up to which sequence number of which deployment closed trades were looked at; a roll-up of a few
    chosen days says nothing.
    """

    folds: tuple[Fold, ...]
    told: tuple[Told, ...]
    until: dict[str, int] = {}


class LayerCurated(msgspec.Struct, frozen=True):
    """Values above the leaf layers, written by a person; they stand beside the roll-up and are never summed."""

    owner: str
    told: Told


class LayerObserved(msgspec.Struct, frozen=True):
    """Values of the leaf layers: positions, prices and volatility of this moment, or the sums of a day."""

    told: Told


class LayerExpired(msgspec.Struct, frozen=True):
    """From now on, timeframes before these are gone."""

    first_kept: dict[ContextLayer, str]


KINDS: dict[type[msgspec.Struct], str] = {
    LayerRolled: "layer.rolled",
    LayerCurated: "layer.curated",
    LayerObserved: "layer.observed",
    LayerExpired: "layer.expired",
}


def draft(happened_at: int, body: msgspec.Struct) -> Draft:
    """An event about to be appended; the body's type names its kind."""
    return Draft.of(KINDS[type(body)], happened_at, body)


def body_of(event: Event, kind: type[Body]) -> Body:
    """The typed body of an event."""
    return msgspec.json.decode(event.body, type=kind)
