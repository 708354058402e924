"""Jobs and accounts, for a seller and for an operator."""

import pytest
from tests.operations.sample import ACME, BEST, SampleDeployment

from headway.core.accounts.jobs import JobStatus
from headway.errors import ConflictError, ForbiddenError, NotFoundError
from headway.operations.accounts import accounts
from headway.operations.jobs import account_jobs, job_of, jobs, revive_job, run_job
from headway.providers.shopify.access_scopes import SCOPES


def test_every_job_operation_reaches_only_the_sellers_own_jobs(sample: SampleDeployment) -> None:
    own, operator = sample.seller(ACME), sample.operator
    assert {job.seller for job in jobs(own, limit=500).jobs} == {ACME}
    with pytest.raises(ForbiddenError, match="belongs to acme"):
        jobs(own, seller=BEST, limit=500)
    (other, *_) = jobs(operator, seller=BEST, limit=500).jobs
    for call in (job_of, run_job, revive_job):
        for name in (other.id, other.name, "nonsense"):
            with pytest.raises(NotFoundError) as error:
                call(own, name)
            assert "best" not in str(error.value)
    with pytest.raises(NotFoundError):
        account_jobs(own, other.account_id)
    listed = account_jobs(operator, other.account_id).jobs
    assert {job.account_id for job in listed} == {other.account_id}
    with pytest.raises(NotFoundError, match="best has best/"):
        job_of(operator, "best/printify/orders")


def test_jobs_are_made_due_and_revived_by_name(sample: SampleDeployment) -> None:
    own = sample.seller(ACME)
    sample.execute("UPDATE sync_jobs SET next_run_at = next_run_at + interval '9 hours'")
    made = run_job(own, "acme/shopify/orders")
    assert made.due_at == sample.clock.now()
    with pytest.raises(ConflictError, match="is not dead"):
        revive_job(own, "acme/shopify/orders")
    sample.execute(
        "UPDATE sync_jobs SET status = 'dead', next_run_at = NULL WHERE id = %s", made.id
    )
    with pytest.raises(ConflictError, match="cannot be made due"):
        run_job(own, made.name)
    assert revive_job(own, made.name).status is JobStatus.QUEUED


def test_an_account_names_the_scopes_that_its_shop_has_not_granted(
    sample: SampleDeployment,
) -> None:
    assert {account.scope_advice for account in accounts(sample.operator).accounts} == {""}
    granted = sorted({scope.name for scope in SCOPES} - {"write_publications"})
    sample.execute(
        "UPDATE connected_accounts SET scopes = %s WHERE platform = 'shopify' AND user_id = %s",
        granted,
        ACME,
    )
    own, other = (accounts(sample.seller(who)).accounts for who in (ACME, BEST))
    (advice,) = [account.scope_advice for account in own if account.scope_advice]
    assert advice.startswith("has not granted write_publications (put products on sales channels)")
    assert "run: headway connect acme.myshopify.com --seller acme" in advice
    assert not any(account.scope_advice for account in other)


def test_a_seller_lists_only_its_own_accounts(sample: SampleDeployment) -> None:
    assert {account.seller for account in accounts(sample.seller(ACME)).accounts} == {ACME}
    assert {account.seller for account in accounts(sample.operator).accounts} == {ACME, BEST}
    with pytest.raises(ForbiddenError, match="belongs to acme"):
        accounts(sample.seller(ACME), seller=BEST)
