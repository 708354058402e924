"""The laws of the account lane, checked at every operation that a worker makes on a job.

The checks keep their own record of which worker runs which job under which fence. Nothing here asks
the engine.
"""

from collections import Counter
from dataclasses import dataclass

from headway.clock import Clock
from headway.core.accounts.jobs import Account, DataKind, Job, JobStatus, PlatformName, Tier
from headway.core.accounts.pagination import Page
from headway_lab.simulation.accounts.ages import Ages, Track
from headway_lab.simulation.accounts.blast_radius import BlastRadius
from headway_lab.simulation.accounts.world import DAY_S, interval_s
from headway_lab.simulation.forecast_checks import ForecastChecks
from headway_lab.simulation.job_evidence import JobEvidence
from headway_lab.simulation.violation_log import ViolationLog

STARVED_S = DAY_S
# No heartbeat for less than this is no silence.
LEASE_S_MIN = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """A job that a worker runs."""

    job_id: str
    fence: int
    seen_s: float


class AccountLaws:
    """Checks every operation on jobs against the laws."""

    def __init__(
        self,
        *,
        violations: ViolationLog,
        clock: Clock,
        evidence: JobEvidence,
        ages: Ages,
        forecasts: ForecastChecks,
        blast: BlastRadius,
    ) -> None:
        self._violations = violations
        self._clock = clock
        self._evidence = evidence
        self._blast = blast
        self._ages = ages
        self._forecasts = forecasts
        self._accounts: dict[str, Account] = {}
        self._running: dict[str, HeldJob] = {}
        self._fences: dict[str, int] = {}
        self._away: set[str] = set()
        self._fed: set[str] = set()
        self._troubled: set[str] = set()
        self.ended: Counter[str] = Counter()
        self.claims: Counter[str] = Counter()
        self.limited: set[str] = set()
        self.refused = self.rescued = self.pages = self.yields = 0
        violations.enable(("L1", "L5", "L6", "L7", "L10", "L11", "L12", "L13"))

    # -- who is there ------------------------------------------------------------------------

    def connected(self, account: Account) -> None:
        """Follow an account and all its jobs from now on, also one that returns."""
        at_s = self._clock.monotonic()
        self._accounts[account.id] = account
        self._away.discard(account.id)
        # It was not there all day.
        self._troubled.add(account.id)
        for row in self._evidence.jobs():
            if row.account_id != account.id:
                continue
            if row.id not in self._ages.tracks:
                tier, kind = Tier(row.tier), DataKind(row.kind)
                track = Track(
                    tier=tier,
                    platform=PlatformName(row.platform),
                    kind=kind,
                    is_backfill=row.job_type == "backfill",
                    interval_s=interval_s(tier, kind),
                    account_id=row.account_id,
                )
                self._ages.follow(row.id, track, at_s)
            elif row.status == JobStatus.QUEUED:
                self._ages.resume(row.id, at_s)

    def left(self, account: Account) -> None:
        """Note that an account is disconnected: its jobs run no more, nothing is owed to them."""
        at_s = self._clock.monotonic()
        self._running.pop(account.id, None)
        self._away.add(account.id)
        self._troubled.add(account.id)
        for row in self._evidence.jobs():
            if row.account_id == account.id and row.id in self._ages.tracks:
                self._ages.stop(row.id, at_s)

    def upgraded(self, user_id: str, tier: Tier) -> None:
        """Note that a seller pays for more."""
        at_s = self._clock.monotonic()
        for row in self._evidence.jobs():
            if row.user_id == user_id and row.id in self._ages.tracks:
                self._ages.pay(row.id, tier, interval_s(tier, DataKind(row.kind)), at_s)

    # -- one operation each ------------------------------------------------------------------

    def claimed(self, job: Job) -> None:
        """Check that no other worker runs a job of this account, and its owner is unchanged."""
        account, at_s = job.account, self._clock.monotonic()
        self.claims[job.type] += 1
        self._forecasts.in_call(job.id, at_s)
        if account != self._accounts.get(account.id):
            self._violations.add("L10", f"a job of {account.user_id} came with another's account")
        if account.id in self._away:
            self._violations.add(
                "L5", f"{account.id} is disconnected and {job.kind} of it was claimed"
            )
        held = self._running.get(account.id)
        if held is not None:
            subject = f"{job.kind} of {account.id}"
            self._violations.add("L5", f"{subject} was claimed while another job of it runs")
        if job.fence <= self._fences.get(job.id, -1):
            self._violations.add("L5", f"{job.kind} of {account.id} has the old fence {job.fence}")
        self._fences[job.id] = job.fence
        self._running[account.id] = HeldJob(job_id=job.id, fence=job.fence, seen_s=at_s)
        self._ages.resume(job.id, at_s)

    def committed(self, job: Job, page: Page, *, is_taken: bool) -> None:
        """Check that a page was accepted exactly if the worker holds the job."""
        self._check_held(job, "page", is_taken=is_taken)
        if not is_taken:
            return
        self.pages += 1
        at_s = self._clock.monotonic()
        self._running[job.account.id] = HeldJob(job_id=job.id, fence=job.fence, seen_s=at_s)
        self._ages.progressed(job.id, at_s)
        self._fed.add(job.account.id)
        wrong = self._blast.wrongly_unreadable(job.account, page.records.unreadable)
        if wrong:
            self._violations.add("L6", f"{job.account.platform} {job.kind} unreadable: {wrong[:3]}")

    def settled(self, job: Job, status: JobStatus, reason: str, *, is_taken: bool) -> None:
        """Check that a claim was ended by its holder, and count how."""
        self._check_held(job, "settle", is_taken=is_taken)
        if not is_taken:
            return
        at_s = self._clock.monotonic()
        self._running.pop(job.account.id, None)
        self.ended[status] += 1
        if status is JobStatus.COMPLETED:
            self._ages.done(job.id, at_s)
        elif status is JobStatus.LIMITED:
            self.note_limited(job.id, job.account)
        elif status is JobStatus.DEAD:
            self._ages.stop(job.id, at_s)
            subject = f"{job.account.platform} {job.kind} of {job.account.user_id}"
            if self._blast.died(job.account, subject, reason):
                self._violations.add("L12", f"{subject} is dead: {reason}")

    def note_limited(self, job_id: str, account: Account) -> None:
        """Note that a seller's month is used up."""
        self.limited.add(account.user_id)
        self._troubled.add(account.id)
        self._ages.stop(job_id, self._clock.monotonic())

    def rescued_by(self, count: int) -> None:
        """Check that only workers without heartbeat were rescued, and forget them."""
        self.rescued += count
        if not count:
            return
        running, at_s = self._evidence.running(), self._clock.monotonic()
        gone = {
            id_: held
            for id_, held in self._running.items()
            if running.get(id_) != (held.job_id, held.fence)
        }
        for id_, held in gone.items():
            if at_s - held.seen_s < LEASE_S_MIN:
                self._violations.add("L5", f"a job of {id_} was rescued from a living worker")
            del self._running[id_]

    # -- what time brings --------------------------------------------------------------------

    def compare(self) -> None:
        """Compare the running jobs with the record, and look for rows under another seller."""
        running = self._evidence.running()
        known = {id_: (held.job_id, held.fence) for id_, held in self._running.items()}
        for id_ in running.keys() ^ known.keys():
            self._violations.add("L5", f"a job of {id_} started or stopped without an operation")
        for id_ in running.keys() & known.keys():
            if running[id_] != known[id_]:
                self._violations.add("L5", f"another job of {id_} runs than was claimed")
        for table, id_, name in self._evidence.strays():
            self._violations.add("L10", f"{table} of {id_} bears the name {name}")

    def note_set_aside(self) -> None:
        """Follow the jobs that a claim set aside because their seller's month is used up."""
        for row in self._evidence.jobs():
            if row.status == JobStatus.LIMITED:
                self.note_limited(row.id, self._accounts[row.account_id])

    def close_day(self, *, day: int) -> None:
        """Check that every account that was there all day got something of its platform."""
        for id_, account in self._accounts.items():
            if id_ not in self._fed and id_ not in self._troubled:
                subject = f"{account.user_id} on {account.platform}"
                self._violations.add("L12", f"nothing was pulled for {subject} on day {day}")
        self._fed.clear()
        self._troubled = set(self._away)

    def close(self, *, days: float) -> int:
        """Check that no job waited for a day beyond its time; return how many did."""
        self._ages.close(self._clock.monotonic())
        self._blast.close(self._ages, self._accounts, days=days)
        starved = self._ages.late(STARVED_S)
        for id_ in starved:
            track = self._ages.tracks[id_]
            if self._blast.is_endless(self._accounts[track.account_id]):
                continue
            subject = f"a {track.tier} {track.kind} job on {track.platform}"
            self._violations.add("L12", f"{subject} waited for more than a day beyond its time")
        return len(starved)

    def _check_held(self, job: Job, action: str, *, is_taken: bool) -> None:
        held = self._running.get(job.account.id)
        is_ours = held is not None and (held.job_id, held.fence) == (job.id, job.fence)
        self.refused += not is_taken
        if is_taken and not is_ours:
            self._violations.add("L5", f"a late {action} of {job.kind} {job.account.id} was taken")
        if is_ours and not is_taken:
            self._violations.add(
                "L5", f"a {action} of {job.kind} {job.account.id} was refused its holder"
            )
