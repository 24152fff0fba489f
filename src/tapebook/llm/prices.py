"""What a model costs: list prices by name, and what to assume of a model that is not listed.

A price is in millionths of a dollar for a million tokens, so that it is an integer; a cost is
rounded up. Long prompts, caches and batches have prices of their own, which a packet never reaches.
"""

import re

import msgspec

MILLION = 10**6
_DATE = re.compile(r"-\d{4}-?\d{2}-?\d{2}\Z")


class Price(msgspec.Struct, frozen=True):
    """Millionths of a dollar for a million tokens."""

    input_e6: int
    output_e6: int

    def cost_usd_e6(self, *, input_tokens: int, output_tokens: int) -> int:
        """What so many tokens cost, rounded up."""
        return -(-(input_tokens * self.input_e6 + output_tokens * self.output_e6) // MILLION)


def usd(input_usd: float, output_usd: float) -> Price:
    """A price given in dollars for a million tokens, as price lists write it."""
    return Price(round(input_usd * MILLION), round(output_usd * MILLION))


# The providers' lists of October 2026, in dollars.
PRICES = {
    "claude-fable-5-1": usd(10, 50),
    "claude-haiku-4-5": usd(1, 5),
    "claude-haiku-5-5": usd(0.10, 0.50),
    "claude-opus-4-6": usd(5, 25),
    "claude-opus-4-7": usd(5, 25),
    "claude-opus-4-8": usd(5, 25),
    "claude-opus-5": usd(5, 25),
    "claude-opus-5-5": usd(4, 20),
    "claude-sonnet-4-6": usd(3, 15),
    "claude-sonnet-5": usd(2, 10),
    "claude-sonnet-5-5": usd(2, 10),
    "gpt-5.4": usd(2.50, 15),
    "gpt-5.4-mini": usd(0.75, 4.50),
    "gpt-5.5": usd(5, 30),
    "gpt-5.6-luna": usd(0.20, 1.20),
    "gpt-5.6-sol": usd(4, 20),
    "gpt-5.6-terra": usd(2, 12),
    "gpt-6-astra": usd(10, 50),
    "gpt-6-luna": usd(0.10, 0.50),
    "gpt-6-sol": usd(2, 10),
}


def price_of(model: str, *, unknown: Price) -> Price:
    """The price of a model; a date at the end of its name and a vendor before it make no difference."""
    return PRICES.get(_DATE.sub("", model.rpartition("/")[2]), unknown)
