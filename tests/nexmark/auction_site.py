"""Events of an imagined auction site: people, auctions and bids, the same in every run."""

from __future__ import annotations

import random

from apache_beam.testing.benchmarks.nexmark.models.nexmark_model import Auction, Bid, Person
from apache_beam.utils.timestamp import Timestamp

START = 1_700_000_000
AT_ONCE = 10
EVERY = 0.5
STATES = ("OR", "ID", "CA", "WA", "AZ")
Event = Person | Auction | Bid


def events(count: int, seed: int = 1, start: int = START) -> list[tuple[Event, float]]:
    """Events with their times in seconds, in time order: of 50, one person, 3 auctions, 46 bids.

    ``AT_ONCE`` have the same time, and the next ones a time that is ``EVERY`` seconds later.
    """
    chance = random.Random(seed)
    made: list[tuple[Event, float]] = []
    people, auctions = 0, 0
    for number in range(count):
        time = start + number // AT_ONCE * EVERY
        stamp = Timestamp(time)
        kind = number % 50
        event: Event
        if kind == 0:
            people += 1
            state = STATES[people % len(STATES)]
            name = f"person {people}"
            event = Person(people, name, f"{people}@x", "1234", "town", state, stamp, "")
        elif kind < 4:
            auctions += 1
            expires = Timestamp(time + chance.randint(1, 20))
            seller = chance.randint(1, people)
            category = chance.choice((10, 11, 12))
            reserve = chance.randint(1, 500)
            event = Auction(auctions, "item", "", 1, reserve, stamp, expires, seller, category, "")
        else:
            auction = chance.randint(max(1, auctions - 5), auctions)
            event = Bid(auction, chance.randint(1, people), chance.randint(1, 10**6), stamp, "")
        made.append((event, time))
    return made
