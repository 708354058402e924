"""Random small worlds in which people interfere between any two events: laws L6 and L9 hold.

A world that breaks a law is shortened to the actions that are needed, and printed as a test that
can be pasted below.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.laws.operator_checks import BrokenLawError
from tests.laws.operator_people import PeopledWorld
from tests.laws.operator_world import Action

from headway.clock import Rng, rng

# How often each action is drawn; a round lets the engine read and write everything.
ACTIONS = {
    "round": 30, "requote": 14, "price_list": 3, "misquote": 8, "restock": 10, "sell_out": 3,
    "discontinue": 2, "relist": 2, "outage": 4, "approve": 9, "reject": 7, "approve_all": 2,
    "roll_back": 4, "pause": 3, "resume": 4, "change_terms": 3, "trigger": 3, "revive": 3,
    "publish": 4, "publish_many": 1, "import": 4, "remove": 3, "revive_one": 3, "start": 4,
    "edit": 4, "sell": 4, "wait": 5, "kill": 5,
}  # fmt: skip
ALONE = {"round", "wait", "start", "kill"}
SMALL, WORLDS_OF_A_CAMPAIGN = (1, 2, 3, 4), 400
Play = Callable[[int, Sequence[Action]], int]


def draw_actions(draw: Rng, count: int) -> list[Action]:
    """Draw a story; it begins and ends with the engine at work."""
    names = draw.choices(list(ACTIONS), weights=list(ACTIONS.values()), k=count)
    story = [
        Action(
            name=name,
            number=draw.randrange(10**6),
            is_during_call=name not in ALONE and draw.random() < 0.25,
        )
        for name in names
    ]
    rounds = [Action(name="round", number=0)]
    return [*rounds, *story, Action(name="resume", number=0), *rounds]


@pytest.fixture
def play(pool: ConnectionPool, tmp_path: Path) -> Play:
    def run(seed: int, actions: Sequence[Action]) -> int:
        world = PeopledWorld(pool, tmp_path, seed)
        for action in actions:
            world.do(action)
        return world.checks.events

    return run


def search(play: Play, seed: int) -> tuple[int, int]:
    """Play a world; if a law breaks, raise with the shortest story that breaks it."""
    draw = rng(f"operator actions {seed}")
    actions = draw_actions(draw, draw.choice((8, 15, 30)))
    try:
        return len(actions), play(seed, actions)
    except BrokenLawError as error:
        short, reason = shorten(play, seed, actions, error)
        story = "\n".join(f"        {action!r}," for action in short)
        raise BrokenLawError(f"{reason}\n    play({seed}, [\n{story}\n    ])") from error


def shorten(
    play: Play, seed: int, actions: Sequence[Action], error: BrokenLawError
) -> tuple[Sequence[Action], BrokenLawError]:
    """Leave out actions, many at once first, as long as a law still breaks."""
    size = len(actions) // 2
    while size:
        start = 0
        while start < len(actions):
            fewer = [*actions[:start], *actions[start + size :]]
            try:
                play(seed, fewer)
            except BrokenLawError as still:
                actions, error = fewer, still
            else:
                start += size
        size //= 2
    return actions, error


@pytest.mark.parametrize("seed", SMALL)
def test_people_who_interfere_at_any_moment_lose_no_change_and_harm_no_shop(
    play: Play, seed: int
) -> None:
    search(play, seed)


def test_decisions_about_a_takeover_are_about_what_was_shown(play: Play) -> None:
    first, approvals = Action(name="round", number=0), range(20)
    play(179, [first, *(Action(name="approve", number=number) for number in approvals)])


@pytest.mark.campaign
def test_many_worlds(play: Play, capsys: pytest.CaptureFixture[str]) -> None:
    first = int(os.environ.get("HEADWAY_WORLDS_FROM", "100"))
    count = int(os.environ.get("HEADWAY_WORLDS", WORLDS_OF_A_CAMPAIGN))
    totals = [search(play, seed) for seed in range(first, first + count)]
    actions, events = (sum(column) for column in zip(*totals, strict=True))
    with capsys.disabled():
        sys.stdout.write(f"\n{count:,} worlds, {actions:,} actions, {events:,} events checked\n")
