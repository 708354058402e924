"""Pull: read a seller's platform. Claim a job with its budget, then page by page, then settle.

A step makes at most one call, never sleeps, and returns Done or Wait. Each page is committed with
its cursor, so any worker can continue a run that was interrupted anywhere.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta

from headway.clock import Clock
from headway.core.accounts.jobs import (
    Account,
    DataKind,
    Ending,
    Job,
    JobRule,
    JobType,
    PlatformName,
    completed,
    failed,
    limited,
    rescheduled,
    throttle_pause,
)
from headway.core.accounts.narrowing import Narrowed
from headway.core.accounts.pagination import Page, PageRequest, PageStep, Paginator
from headway.core.accounts.unreadable_rows import healed_names
from headway.core.accounts.warehouse import Records
from headway.core.catalog.listings import Done, Wait
from headway.core.dispatch import PullClaim, WorkerState
from headway.core.limits.daily_shares import EVIDENCE_SPAN, is_refused_alone
from headway.core.limits.transitions import Expired, Granted, NotYet, Permit, Rejected
from headway.engine.ports import AccountTroublesPort, BreakersPort, JobsPort, Platform
from headway.engine.ports_limits import ErrorSharePort, Limiter
from headway.engine.pull_breakers import PlatformBreakers
from headway.engine.pull_claim import (
    BUGS,
    Claim,
    begin_run,
    describe_bug,
    narrowed,
    settle_call,
    unpacked,
)
from headway.engine.pull_progress import followed
from headway.engine.rules import PullRule
from headway.errors import (
    AppRefusedError,
    ConfigError,
    InvalidError,
    MovedError,
    ProviderError,
    StoreError,
    SuspendedError,
    ThrottledError,
    UnauthorizedError,
)

TOKEN_PAUSE = timedelta(seconds=1)
CONFIG_PAUSE = timedelta(minutes=1)
# How many more calls to reserve when a run needs more of its day than it reserved.
MORE_CALLS = 10
# A rolling day becomes free bit by bit, whatever the reply says: try again every hour.
DAY_PAUSE_MAX = timedelta(hours=1)


class Pull:
    """One worker's pull from the platforms, or from `only` one; any number may run, anywhere.

    The platforms in `errors_counted` block clients that send too many failing requests.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        limiter: Limiter,
        jobs: JobsPort,
        breakers: BreakersPort,
        troubles: AccountTroublesPort,
        errors: ErrorSharePort,
        platforms: Collection[PlatformName],
        errors_counted: Collection[PlatformName] = (),
        open_platform: Callable[[Account], Platform],
        paginator_of: Callable[[Job], Paginator],
        rule: JobRule,
        pull_rule: PullRule | None = None,
        owner: str,
        only: PlatformName | None = None,
    ) -> None:
        self._clock = clock
        self._limiter = limiter
        self._jobs = jobs
        self._breakers = PlatformBreakers(breakers, clock)
        self._troubles = troubles
        self._errors = errors
        self._platforms = tuple(platforms)
        self._errors_counted = frozenset(errors_counted)
        self._open_platform = open_platform
        self._walk_of = paginator_of
        self._job_rule = rule
        self._rule = pull_rule or PullRule()
        self._owner = owner
        self._only = only
        self._run: Claim | None = None
        self._throttles = 0

    def detach(self) -> PullClaim | None:
        """Return the claimed job, so that another worker can continue with it."""
        run, self._run = self._run, None
        return None if run is None else run.packed

    def resume(self, state: WorkerState) -> None:
        """Continue a job that another worker had, if its lease is still valid."""
        assert isinstance(state, PullClaim)
        run, now = unpacked(state, self._walk_of(state.job)), self._clock.now()
        if not self._jobs.keep(run.job, now=now):
            self._settle_day(run)
        elif run.day is not None and not self._limiter.knows(run.day):
            self._give_back(run, now, "claimed by a worker with other settings")
        else:
            self._run = run

    def give_back(self) -> None:
        """Release the claimed job, due at once: this worker ends."""
        if self._run is not None:
            self._give_back(self._run, self._clock.now(), "")

    def step(self) -> Done | Wait:
        """Do the next short thing: claim a job, queue for a permit, or use it."""
        run = self._run
        if run is None:
            return self._claim()
        try:
            return self._go_on(run)
        except StoreError:
            # What was written is unknown: the claim is left as by a crash, and its lease runs out.
            self._run = None
            raise

    def _go_on(self, run: Claim) -> Done | Wait:
        try:
            if not run.has_begun:
                run.cursor = begin_run(self._jobs, run.job, run.walk, self._clock.now())
                run.has_begun = True
            if run.opened is None:
                run.opened = self._open_platform(run.job.account)
                if run.permit is not None and not self._limiter.knows(run.permit):
                    run.permit = None
            return self._queue(run) if run.permit is None else self._begin(run, run.permit)
        except ConfigError as error:  # a setting is wrong, so it is no failure of the job
            return self._blame(run, error)
        except InvalidError as error:  # more than any limit gives, or any table holds
            return self._charge(run, str(error))
        except BUGS as error:  # of one job, which must not stop all others
            return self._charge(run, describe_bug(error))

    # -- the job -----------------------------------------------------------------------------

    def _claim(self) -> Done | Wait:
        now = self._clock.now()
        breakers = self._breakers.load(self._platforms)
        shut = {platform: breaker.blocked_until(now) for platform, breaker in breakers.items()}
        without = [
            platform
            for platform in self._platforms
            if shut[platform] is not None or self._only not in (None, platform)
        ]
        claimed = self._jobs.claim(now=now, owner=self._owner, without=without)
        if claimed is None:
            shut_until = None if self._only is None else shut.get(self._only)
            until = max(now + self._rule.poll, shut_until or now)
            return Wait(until=until, why="no job may run")
        job, day = claimed
        self._breakers.probe(job.account.platform, breakers[job.account.platform])
        self._run = Claim(job=job, walk=self._walk_of(job), cursor=job.cursor, day=day)
        return Done(what=f"{self._run.what}: {job.type}")

    # -- the permit --------------------------------------------------------------------------

    def _queue(self, run: Claim) -> Done | Wait:
        """Take a unit of the day and queue for a permit; make the call at once if allowed."""
        if not self._has_unit(run):
            return self._yield(run)
        began_s = self._clock.monotonic()
        ask = None if run.platform.needs_token() else run.walk.ask(run.cursor)
        answer = self._limiter.reserve(
            run.platform.keys,
            cost=1 if ask is None else run.platform.price(ask),
            owner=self._owner,
            max_wait_s=self._rule.permit_wait_max.total_seconds(),
            lease_s=self._job_rule.lease.total_seconds(),
            grace_s=self._rule.permit_grace.total_seconds(),
            purpose="pull",
            begins=True,
        )
        now = self._clock.now()
        if isinstance(answer, Rejected):
            wait = self._rule.permit_wait_max + timedelta(seconds=answer.retry_in_s)
            return self._give_back(run, now + wait, "permits are spoken for")
        if answer.granted is not None:
            return self._use(run, answer, ask, began_s + answer.granted.send_within_s)
        run.permit = answer
        return self._wait(run, now + timedelta(seconds=answer.wait_s), "permit")

    def _has_unit(self, run: Claim) -> bool:
        """Spend one of the day before a call, reserving more if the reservation is used up."""
        if run.day is None or run.spent > run.sent:
            return True
        lease_s = self._job_rule.lease.total_seconds()
        more = min(MORE_CALLS, max(1, self._job_rule.calls_per_claim[run.job.type] - run.sent))
        is_spent = self._limiter.spend(run.day, 1, lease_s=lease_s)
        # History yields instead: only a claim checks what must be left to others.
        is_news = run.job.type is not JobType.BACKFILL
        if not is_spent and (
            is_news and (self._limiter.extend(run.day, more) or self._limiter.extend(run.day, 1))
        ):
            is_spent = self._limiter.spend(run.day, 1, lease_s=lease_s)
        run.spent += is_spent
        return is_spent

    def _yield(self, run: Claim) -> Done:
        """Release a job whose reservation is used up: history leaves the rest to what is new."""
        now = self._clock.now()
        if run.job.type is JobType.BACKFILL:
            return self._end(run, rescheduled(run.job, now, ""), "gives way")
        return self._give_back(run, now, "the day's quota is spent")

    def _begin(self, run: Claim, permit: Permit) -> Done | Wait:
        began_s = self._clock.monotonic()
        match self._limiter.begin(permit):
            case NotYet(wait_s=wait_s):
                return self._wait(run, self._clock.now() + timedelta(seconds=wait_s), "permit")
            case Expired():
                run.permit = None
                return Done(what=f"{run.what}: permit lapsed")
            case Granted(send_within_s=send_within_s):
                run.permit = None
                ask = None if run.platform.needs_token() else run.walk.ask(run.cursor)
                return self._use(run, permit, ask, began_s + send_within_s)

    def _wait(self, run: Claim, until: datetime, why: str) -> Done | Wait:
        """Wait with the job in hand, as long as its lease surely holds; else give it back."""
        run.waits_since = run.waits_since or self._clock.now()
        if until - run.waits_since > self._rule.permit_wait_max:
            return self._give_back(run, until, why)
        return Wait(until=until, why=why)

    # -- the call ----------------------------------------------------------------------------

    def _use(
        self, run: Claim, permit: Permit, ask: PageRequest | None, send_by_s: float
    ) -> Done | Wait:
        """Make the one call of this step: for a token, or for a page."""
        try:
            if ask is None:
                return self._refresh(run, permit, send_by_s)
            if self._clock.monotonic() > send_by_s:
                return self._hand_back(run, permit, "too late to send")
            asked_at = self._clock.now()
            page = run.platform.read(ask)
        except ProviderError as error:
            settle_call(self._limiter, run, permit, error=error, result=str(error))
            self._brake(run)
            less = None if ask is None else narrowed(run, error, self._clock.now())
            if less is not None:
                return self._narrow(run, less, error)
            return self._failed(run, error, is_token=ask is None)
        except (ConfigError, *BUGS) as error:  # it may have left: a call counts in doubt
            settle_call(self._limiter, run, permit, error=error, result=type(error).__name__)
            raise
        settle_call(
            self._limiter,
            run,
            permit,
            result=ask.what,
            is_missing=bool(page.missing) and not page.ids,
        )
        if page.missing:
            self._brake(run)
        self._answered(run)
        run.has_refreshed = False
        if not run.is_accepted:  # a good token alone is no proof: only a page is
            self._troubles.accept(run.job.account, now=self._clock.now())
            run.is_accepted = True
        return self._advance(run, page, asked_at)

    def _refresh(self, run: Claim, permit: Permit, send_by_s: float) -> Done | Wait:
        if not run.platform.refresh_token(send_by_s=send_by_s):
            return self._hand_back(run, permit, "another worker refreshes the token")
        settle_call(self._limiter, run, permit, result="token")
        run.has_refreshed, run.waits_since, self._throttles = True, None, 0
        return Done(what=f"{run.what}: new access token")

    def _hand_back(self, run: Claim, permit: Permit, why: str) -> Done | Wait:
        """Return a permit unused."""
        self._limiter.settle(permit, sent=False)
        return self._wait(run, self._clock.now() + TOKEN_PAUSE, why)

    def _advance(self, run: Claim, page: Page, asked_at: datetime) -> Done:
        """Commit a page, and continue, yield, or end."""
        now = self._clock.now()
        ask = run.walk.ask(run.cursor)
        step = run.walk.advance(run.cursor, page, now)
        progress = followed(run.job, run.cursor, ask, step, page.ids)
        healed = healed_names(run.cursor, progress.step.cursor)
        step = replace(progress.step, healed=(*progress.step.healed, *healed))
        job = self._jobs.commit(
            run.job, page, step, calls=run.unrecorded, asked_at=asked_at, now=now
        )
        if job is None:
            self._drop(run)
            return Done(what=f"{run.what}: taken over, too late")
        run.job, run.cursor, run.unrecorded = job, step.cursor, 0
        if progress.reason:
            run.job = replace(job, retry_count=max(job.retry_count, progress.failures))
            return self._charge(run, progress.reason)
        ending = self._ending(run, is_done=step.is_done)
        return Done(what=f"{run.what}: {len(page.ids)} rows") if ending is None else ending

    def _ending(self, run: Claim, *, is_done: bool) -> Done | None:
        """End a claim after a page if its run is done or others are to go first; else None."""
        job, now = run.job, self._clock.now()
        if is_done:
            ending = completed(job, self._job_rule, now, stretch=self._jobs.stretch(job))
            return self._end(run, ending, "done")
        if job.is_paused:
            return self._end(run, rescheduled(job, now, "paused"), "paused")
        if job.kind is DataKind.ORDERS and self._jobs.orders_left(job.account, now=now) <= 0:
            return self._end(run, limited(job, now), "the month's orders are used up")
        if run.sent >= self._job_rule.calls_per_claim[job.type]:
            return self._end(run, rescheduled(job, now, ""), "gives way")
        return None

    def _narrow(self, run: Claim, less: Narrowed, error: ProviderError) -> Done:
        """Commit how a failed request is narrowed down, and continue if it is no failure."""
        now = self._clock.now()
        page = Page(records=Records(unreadable=less.unreadable))
        step = PageStep(cursor=less.cursor, is_progress=False)
        job = self._jobs.commit(run.job, page, step, calls=run.unrecorded, asked_at=now, now=now)
        if job is None:
            self._drop(run)
            return Done(what=f"{run.what}: taken over, too late")
        run.job, run.cursor, run.unrecorded = job, step.cursor, 0
        if less.is_failure:
            return self._failed(run, error, is_token=False)
        if run.sent >= self._job_rule.calls_per_claim[job.type]:
            return self._end(run, rescheduled(job, now, ""), "gives way")
        return Done(what=f"{run.what}: narrowed down, {error}")

    def _brake(self, run: Claim) -> None:
        """Pause if error replies would become too large a share."""
        if run.job.account.platform not in self._errors_counted:
            return
        for key in run.platform.keys:
            pause_s = self._errors.pause_for(key, now=self._clock.now())
            if pause_s:
                self._limiter.pause(key, pause_s, "too many error replies")

    def _answered(self, run: Claim) -> None:
        """Record that the platform answers: clear waits and suspicions."""
        run.waits_since, self._throttles = None, 0
        if not run.is_answered:  # once a claim is enough: a claim is short
            self._breakers.answered(run.job.account)
        run.is_answered = True

    # -- what went wrong ---------------------------------------------------------------------

    def _failed(self, run: Claim, error: ProviderError, *, is_token: bool) -> Done:
        """Blame the right thing: the limit, the grant, the account, the platform, or this job."""
        now, why = self._clock.now(), str(error)
        if isinstance(error, ThrottledError):
            return self._throttled(run, error)
        if isinstance(error, UnauthorizedError | MovedError):
            is_first = not is_token and not run.has_refreshed
            may_ask = run.sent < self._job_rule.calls_per_claim[run.job.type]
            if is_first and may_ask and run.platform.needs_token():
                return Done(what=f"{run.what}: {why}")
        if isinstance(error, UnauthorizedError):
            return self._refused(run, why)
        if isinstance(error, MovedError):
            return self._give_back(run, now if is_token else now + CONFIG_PAUSE, why)
        if isinstance(error, SuspendedError):
            until = self._troubles.suspend(run.job.account, why, now=now)
            return self._give_back(run, until, why)
        return self._blame(run, error)

    def _refused(self, run: Claim, why: str) -> Done:
        """Count a refusal of the account's token: it waits, or its connection ends."""
        now, account = self._clock.now(), run.job.account
        if not self._jobs.keep(run.job, now=now):  # it may have been connected again meanwhile
            return self._give_back(run, now, "refused too late")
        verdict = self._troubles.refuse(account, why, now=now)
        if not verdict.ends:
            return self._give_back(run, verdict.wait_until, verdict.trouble.wait_reason)
        self._drop(run)
        is_ours = self._jobs.disconnect(run.job, verdict.reason, calls=run.unrecorded, now=now)
        what = "disconnected" if is_ours else "refused too late"
        return Done(what=f"{run.what}: {what}, {verdict.reason}")

    def _charge(self, run: Claim, why: str, *, may_pass: bool = False) -> Done:
        """Count a failure against the job; what may pass by itself is tried again even if dead."""
        now = self._clock.now()
        return self._end(run, failed(run.job, self._job_rule, why, now, may_pass=may_pass), why)

    def _blame(self, run: Claim, error: ProviderError | ConfigError) -> Done:
        """Count a failure against its platform and account, and the job unless these are down."""
        until, why = self._breakers.failed(run.job.account, error), str(error)
        if until is None and not isinstance(error, ConfigError | AppRefusedError):
            return self._charge(run, why, may_pass=True)
        soonest = self._clock.now() + CONFIG_PAUSE
        return self._give_back(run, max(soonest, until or soonest), why)

    def _throttled(self, run: Claim, error: ThrottledError) -> Done:
        """Pause for as long as the reply says; it is no failure."""
        self._throttles += 1
        pause = throttle_pause(self._throttles, run.job.id)
        if error.retry_after_s is not None:
            pause = timedelta(seconds=error.retry_after_s)
        keys, day_key = list(run.platform.keys), run.platform.day_key
        if day_key is not None:
            pause = min(pause, DAY_PAUSE_MAX)
            if self._is_refused_alone(run, day_key, error):
                return self._pause_account(run, self._clock.now() + pause)
            # The day is shared by all accounts: block further claims until then.
            keys.append(day_key)
            if (observation := run.platform.observations.get(day_key)) is not None:
                self._limiter.observe(day_key, observation, permit=run.day)
        for key in keys:
            self._limiter.pause(key, pause.total_seconds(), "rate limited by the platform")
        until = self._clock.now() + pause
        return self._end(run, rescheduled(run.job, until, "rate limited"), "rate limited")

    def _is_refused_alone(self, run: Claim, day_key: str, error: ThrottledError) -> bool:
        """Return True if replies to others show that the shared day is not used up."""
        since = self._clock.now() - EVIDENCE_SPAN
        errors, replies = self._errors.count(run.platform.keys[0], since=since)
        return is_refused_alone(
            error.retry_after_s,
            left=self._limiter.left_of(day_key),
            limit=self._limiter.limit_of(day_key),
            answered=replies - errors,
        )

    def _pause_account(self, run: Claim, until: datetime) -> Done:
        """Pause one account, whose day the platform says is used up while others' is not."""
        account, why = run.job.account, "the platform limits this account alone"
        self._jobs.postpone(account, until, why, now=self._clock.now())
        return self._end(run, rescheduled(run.job, until, why), "rate limited")

    # -- the end -----------------------------------------------------------------------------

    def _give_back(self, run: Claim, until: datetime, why: str) -> Done:
        return self._end(run, rescheduled(run.job, until, why), why)

    def _end(self, run: Claim, ending: Ending, why: str) -> Done:
        """End the claim: return what it holds, then write what it came to."""
        self._settle_day(run)
        is_ours = self._jobs.settle(
            run.job,
            ending.status,
            next_run_at=ending.next_run_at,
            retry_count=ending.retry_count,
            reason=ending.reason,
            revive_at=ending.revive_at,
            calls=run.unrecorded,
            now=self._clock.now(),
        )
        self._run = None
        return Done(what=f"{run.what}: {why}" + ("" if is_ours else ", too late"))

    def _drop(self, run: Claim) -> None:
        """Drop a job whose lease was lost; what was used of the day stays used."""
        self._settle_day(run)
        self._run = None

    def _settle_day(self, run: Claim) -> None:
        # What another worker reserved may be under a limit that is not known here: it lapses.
        if run.permit is not None and self._limiter.knows(run.permit):
            self._limiter.settle(run.permit, sent=False)
        if run.day is not None and self._limiter.knows(run.day):
            self._limiter.settle(run.day, sent=True, actual=run.sent)
        run.permit = run.day = None
