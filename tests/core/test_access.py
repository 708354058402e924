"""Roles, needs and tenant isolation, as the table in `core/access.py` has them."""

import pytest

from headway.core.access import Need, Principal, Role
from headway.core.catalog.listings import SellerId
from headway.errors import ForbiddenError

ACME = SellerId("acme")
OPERATOR = Principal(id="1", name="ops", role=Role.OPERATOR)
READER = Principal(id="2", name="board", role=Role.READER)
SELLER = Principal(id="3", name="acme's shop", role=Role.SELLER, seller=ACME)
TAKER = Principal(id="5", name="import script", role=Role.PERMITS)
READER_OF_ONE = Principal(id="4", name="acme's accountant", role=Role.READER, seller=ACME)

TABLE = {
    Need.READ: (True, True, True, True, False),
    Need.WRITE: (True, False, True, False, False),
    Need.OVERSEE: (True, True, False, False, False),
    Need.OPERATE: (True, False, False, False, False),
    Need.PERMIT: (True, False, False, False, True),
}


@pytest.mark.parametrize("need", Need)
def test_everybody_may_do_what_the_table_says(need: Need) -> None:
    everybody = (OPERATOR, READER, SELLER, READER_OF_ONE, TAKER)
    assert tuple(person.may(need) for person in everybody) == TABLE[need]


def test_a_refusal_says_what_would_be_needed() -> None:
    with pytest.raises(ForbiddenError, match="a reader of acme may not do this; it needs: write"):
        READER_OF_ONE.require(Need.WRITE)


def test_a_caller_of_a_seller_asks_about_that_seller_whether_named_or_not() -> None:
    assert SELLER.whose(None) == ACME
    assert SELLER.whose(ACME) == ACME
    with pytest.raises(ForbiddenError, match="belongs to acme"):
        SELLER.whose(SellerId("globex"))


def test_an_operator_asks_about_everybody_unless_one_is_named() -> None:
    assert OPERATOR.whose(None) is None
    assert OPERATOR.whose(ACME) == ACME
