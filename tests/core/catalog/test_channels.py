"""Sales channels: what an event changed in visibility, in words."""

import pytest

from headway.core.catalog.channels import visibility_change

SHOP, COUNTER = "Online Store", "Point of Sale"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    (
        ({"channels": []}, {"channels": [SHOP]}, "published on Online Store"),
        ({}, {"channels": [SHOP, COUNTER]}, "published on Online Store, Point of Sale"),
        ({"channels": [SHOP]}, {"channels": []}, "unpublished from Online Store"),
        (
            {"channels": [SHOP]},
            {"channels": [COUNTER]},
            "published on Point of Sale, unpublished from Online Store",
        ),
        ({"channels": [SHOP]}, {"price": "1.00"}, ""),
        ({}, {"channels": []}, ""),
    ),
)
def test_an_event_names_the_channels_that_were_gained_and_lost(
    old: dict[str, object], new: dict[str, object], text: str
) -> None:
    assert visibility_change(old, new) == text
