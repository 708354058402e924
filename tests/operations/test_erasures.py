"""Erasures and data requests: who may ask for them, what is refused, and what comes back."""

import pytest
from tests.operations.sample import ACME, BEST, SampleDeployment

from headway.core.accounts.erasure import ErasureKind, ErasureStatus
from headway.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from headway.operations.erasures import (
    ErasureBody,
    continue_erasure,
    erase,
    erasure_proof,
    erasures,
    preview_erasure,
)
from headway.operations.privacy import (
    answer_privacy_request,
    export_privacy_request,
    privacy_requests,
)

FILL = """
WITH shops AS (SELECT id, user_id, platform FROM connected_accounts WHERE platform = 'etsy'),
people AS (
  INSERT INTO customers (account_id, external_id, user_id, platform, name, email, created_at,
    updated_at)
  SELECT id, '7001', user_id, platform, 'Ann of ' || user_id, 'ann@example.com', now(), now()
  FROM shops),
bought AS (
  INSERT INTO orders (account_id, external_id, user_id, platform, status, is_open, currency, total,
    customer_id, placed_at, checked_at, created_at, updated_at)
  SELECT id, '5001', user_id, platform, 'paid', false, 'EUR', 9.5, '7001', now(), now(), now(),
    now() FROM shops)
INSERT INTO privacy_requests (account_id, user_id, platform, customer_id, requested_at, due_at)
SELECT id, user_id, platform, '7001', '2026-01-01Z', '2026-01-31Z' FROM shops
"""


@pytest.fixture(autouse=True)
def _people(sample: SampleDeployment) -> None:
    sample.execute(FILL)


def body(kind: ErasureKind, seller: str | None, **fields: str) -> ErasureBody:
    return ErasureBody.model_validate({"kind": kind, "seller": seller, **fields})


def customers(sample: SampleDeployment) -> list[str]:
    return [row[0] for row in sample.execute("SELECT user_id FROM customers ORDER BY 1")]


def test_a_seller_erases_only_its_own_customers_and_no_account_or_seller(
    sample: SampleDeployment,
) -> None:
    own = sample.seller(ACME)
    by_email = {"email": "Ann@Example.com"}
    with pytest.raises(ForbiddenError, match="belongs to acme"):
        erase(own, body(ErasureKind.CUSTOMER, BEST, **by_email))
    for kind in (ErasureKind.SELLER, ErasureKind.ACCOUNT):
        with pytest.raises(ForbiddenError, match="may not do this"):
            erase(own, body(kind, ACME))
    assert customers(sample) == [ACME, BEST]
    erasure = erase(own, body(ErasureKind.CUSTOMER, None, **by_email))
    assert (erasure.status, erasure.actor, erasure.counts["customers"]) == ("sweeping", "tester", 1)
    assert customers(sample) == [BEST]
    assert [row.id for row in erasures(sample.seller(ACME)).items] == [erasure.id]
    assert erasures(sample.seller(BEST)).items == ()
    for look in (erasure_proof, continue_erasure):
        with pytest.raises(NotFoundError, match="no such erasure"):
            look(sample.seller(BEST), erasure.id)
    assert erasure_proof(own, erasure.id).counts == erasure.counts


def test_a_preview_counts_and_deletes_nothing_and_an_erased_account_needs_a_word_to_come_back(
    sample: SampleDeployment,
) -> None:
    account = body(ErasureKind.ACCOUNT, ACME, platform="etsy")
    preview = preview_erasure(sample.operator, account)
    assert (preview.counts["orders"], preview.total > 3) == (1, True)
    assert customers(sample) == [ACME, BEST]
    assert erase(sample.operator, account).status is ErasureStatus.SWEEPING
    assert customers(sample) == [BEST]
    with pytest.raises(NotFoundError, match="acme has no such shop"):
        erase(sample.operator, account)


@pytest.mark.parametrize(
    ("fields", "problem"),
    (
        ({"kind": "customer"}, "customer_id, email: name one of them"),
        ({"kind": "seller", "email": "a@b.c"}, "customer_id, email: name one of them"),
        ({"kind": "seller", "platform": "etsy"}, "platform, shop: a seller is erased with all"),
        ({"kind": "customer", "customer_id": "1", "platform": "ebay"}, "ebay"),
    ),
)
def test_what_makes_no_sense_is_refused_by_its_field(
    sample: SampleDeployment, fields: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidError, match=problem):
        preview_erasure(sample.operator, ErasureBody.model_validate({"seller": ACME, **fields}))


def test_a_customer_who_is_not_stored_is_no_typing_error_that_succeeds(
    sample: SampleDeployment,
) -> None:
    with pytest.raises(NotFoundError, match="nothing is stored of this customer of acme"):
        erase(sample.operator, body(ErasureKind.CUSTOMER, ACME, customer_id="7002"))
    with pytest.raises(NotFoundError):
        erase(sample.operator, body(ErasureKind.SELLER, "nobody"))


def test_a_data_request_is_exported_and_answered_by_its_seller_alone(
    sample: SampleDeployment,
) -> None:
    own, other = sample.seller(ACME), sample.seller(BEST)
    (request,) = privacy_requests(own).items
    for act in (export_privacy_request, answer_privacy_request):
        with pytest.raises(NotFoundError, match="no such request"):
            act(other, request.id)
    export = export_privacy_request(own, request.id)
    assert [row["name"] for row in export.records["customers"]] == ["Ann of acme"]
    assert [row["external_id"] for row in export.records["orders"]] == ["5001"]
    assert export.request.exported_at is not None
    assert answer_privacy_request(own, request.id).actor == "tester"
    with pytest.raises(ConflictError, match="answered before, by tester"):
        answer_privacy_request(own, request.id)
    assert privacy_requests(own).items == ()
    assert len(privacy_requests(own, include_answered=True).items) == 1
    assert len(privacy_requests(sample.operator).items) == 1
