"""Jobs and accounts, of a seller or of everybody."""

import pytest
from tests.operations.room import ACME, BEST, Room

from headway.core.accounts.jobs import JobStatus
from headway.errors import ConflictError, ForbiddenError, NotFoundError
from headway.operations.accounts import accounts
from headway.operations.jobs import account_jobs, job_of, jobs, revive_job, run_job


def test_jobs_are_the_sellers_own_in_every_operation(room: Room) -> None:
    own, operator = room.seller(ACME), room.operator
    assert {job.user_id for job in jobs(own, limit=500).jobs} == {ACME}
    with pytest.raises(ForbiddenError, match="belongs to acme"):
        jobs(own, seller=BEST, limit=500)
    (other, *_) = jobs(operator, seller=BEST, limit=500).jobs
    for call in (job_of, run_job, revive_job):
        for name in (other.id, other.name, "nonsense"):
            with pytest.raises(NotFoundError) as refusal:
                call(own, name)
            assert "best" not in str(refusal.value)
    with pytest.raises(NotFoundError):
        account_jobs(own, other.account_id)
    shown = account_jobs(operator, other.account_id).jobs
    assert {job.account_id for job in shown} == {other.account_id}
    with pytest.raises(NotFoundError, match="best has best/"):
        job_of(operator, "best/printify/orders")


def test_jobs_are_made_due_and_revived_by_name(room: Room) -> None:
    own = room.seller(ACME)
    room.ask("UPDATE sync_jobs SET next_run_at = next_run_at + interval '9 hours'")
    made = run_job(own, "acme/shopify/orders")
    assert made.due_at == room.clock.now()
    with pytest.raises(ConflictError, match="is not dead"):
        revive_job(own, "acme/shopify/orders")
    room.ask("UPDATE sync_jobs SET status = 'dead', next_run_at = NULL WHERE id = %s", made.id)
    with pytest.raises(ConflictError, match="cannot be made due"):
        run_job(own, made.name)
    assert revive_job(own, made.name).status is JobStatus.QUEUED


def test_accounts_are_the_sellers_own(room: Room) -> None:
    assert {account.user_id for account in accounts(room.seller(ACME)).accounts} == {ACME}
    assert {account.user_id for account in accounts(room.operator).accounts} == {ACME, BEST}
    with pytest.raises(ForbiddenError, match="belongs to acme"):
        accounts(room.seller(ACME), seller=BEST)
