"""Bulk price updates, one call per push: upload a file, run it, and fetch its results.

The result of a call is stored with the end of its push. The results are settled in pieces, each of
which removes its listings from the intent: if a worker dies in between, the next one continues.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headway.clock import Clock
from headway.core.catalog import bulk, push_results
from headway.core.catalog.bulk import BulkStep
from headway.core.catalog.push_planning import CHANGES_MAX, PushBatch, price_write
from headway.core.catalog.storefront import (
    BulkIntent,
    BulkProgress,
    Change,
    PriceWrite,
    Pushed,
    PushLease,
    WriteKind,
    WriteResult,
)
from headway.engine.ports import BulksPort, PushesPort, Storefront
from headway.errors import ProviderError

PIECE_MAX = 500
NO_START = "it could not be sent in bulk"
NO_ANSWER = "the bulk operation gave no answer for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPush:
    """What a pusher needs for bulk: from how many prices on, and how the file is written."""

    clock: Clock
    pushes: PushesPort
    bulks: BulksPort
    from_count: int
    write_file: Callable[[Sequence[PriceWrite]], bytes]
    piece_max: int = PIECE_MAX

    def resume(self, push_lease: PushLease) -> "BulkPushStep | None":
        """Return the next step of the current bulk operation, if it is due."""
        now = self.clock.now()
        # Without locations it is unknown whether a listing needs more than its price.
        if (
            push_lease.bulk is None
            or push_lease.shop.locations is None
            or not bulk.is_due(push_lease.bulk, now)
        ):
            return None
        step = bulk.next_step(push_lease.bulk, now)
        return BulkPushStep(
            bulk_push=self, push_lease=push_lease, intent=push_lease.bulk, step=step
        )

    def begin(
        self, push_lease: PushLease, push_batch: PushBatch, ids: Callable[[], str]
    ) -> "BulkPushStep | None":
        """Send prices in bulk instead of this batch, if there are enough of them."""
        is_busy = len(push_lease.changes) >= min(self.from_count, CHANGES_MAX)
        if push_batch.kind is not WriteKind.PRICE or push_lease.bulk is not None or not is_busy:
            return None
        now = self.clock.now()
        # Counted first, since every push checks it; only then are the changes themselves read.
        if self.bulks.count(push_lease, now=now, limit=self.from_count) < self.from_count:
            return None
        waiting = self.bulks.waiting(push_lease, now=now, limit=bulk.WRITES_MAX)
        chosen = bulk.choose(waiting, push_lease.shop)
        if len(chosen) < self.from_count:
            return None
        writes = [price_write(change, push_lease.shop) for change in chosen]
        intent = PushBatch(kind=WriteKind.BULK, changes=chosen, writes=writes).intent(ids())
        asleep = [
            change for change in chosen if push_results.lacks_only_price(change, push_lease.shop)
        ]
        until = now + push_results.SLEEP
        if not self.bulks.intend(push_lease, intent, asleep=asleep, until=until, now=now):
            return None
        opened = BulkIntent(id=intent.id, skus=frozenset(intent.skus), created_at=now)
        return BulkPushStep(
            bulk_push=self, push_lease=push_lease, intent=opened, step=BulkStep.STAGE
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPushStep:
    """One step of prices that go in bulk, in one visit to their shop."""

    bulk_push: BulkPush
    push_lease: PushLease
    intent: BulkIntent
    step: BulkStep
    writes: Sequence[PriceWrite] = ()

    @property
    def what(self) -> str:
        """A short description for people."""
        return f"bulk {self.step} of {len(self.intent.skus)}"

    @property
    def is_elsewhere(self) -> bool:
        """True if its call goes to another host than the shop's."""
        return self.step in bulk.ELSEWHERE

    def prepare(self) -> "BulkPushStep | None":
        """Store and read what the call needs beforehand; None if there is nothing to call."""
        bulks, now = self.bulk_push.bulks, self.bulk_push.clock.now()
        if self.step is BulkStep.DROP:
            changes = bulks.changes(self.push_lease, self.intent.skus)
            self._end(bulk.apart(changes, NO_START, now), voids=NO_START)
            return None
        if self.step is BulkStep.GIVE_UP:
            self.settle(None)
            return None
        if self.step is BulkStep.RUN:
            asking = bulk.asking(self.intent, now)
            return replace(self, intent=asking) if bulks.note(self.push_lease, asking) else None
        return replace(self, writes=bulks.writes(self.intent)) if self.is_elsewhere else self

    def call(self, storefront: Storefront) -> BulkProgress | Sequence[WriteResult] | None:
        """Make the one call; None if the operation ended with an unknown result."""
        clock, intent, progress = self.bulk_push.clock, self.intent, self.intent.progress
        match self.step:
            case BulkStep.STAGE:
                return bulk.staged(storefront.stage_upload(f"{intent.id}.jsonl"), clock.now())
            case BulkStep.UPLOAD:
                content = self.bulk_push.write_file(self.writes)
                return bulk.uploaded(storefront.upload(progress.target, content), clock.now())
            case BulkStep.RUN:
                operation = storefront.run_bulk(progress.path, key=intent.id)
                return bulk.started(intent, operation, clock.now())
            case BulkStep.FIND:
                return bulk.after_search(intent, storefront.find_bulk(intent.id), clock.now())
            case BulkStep.STATUS:
                assert progress.operation is not None, "what runs has a name"
                return bulk.after_status(
                    intent, storefront.bulk_status(progress.operation), clock.now()
                )
        assert progress.url is not None, "answers have an address"
        return storefront.bulk_result(progress.url, self.writes)

    def settle(
        self, answer: BulkProgress | Sequence[WriteResult] | None, *, call_id: str | None = None
    ) -> bool:
        """Write down what the call came to; False if the push lease was taken over."""
        now, push_lease, intent = self.bulk_push.clock.now(), self.push_lease, self.intent
        if isinstance(answer, BulkProgress):
            progress = {intent.id: answer}
            return self.bulk_push.pushes.settle(
                push_lease, progress=progress, call_id=call_id, now=now
            )
        changes = {
            change.sku: change for change in self.bulk_push.bulks.changes(push_lease, intent.skus)
        }
        if answer is None:
            return self._end(unsure=list(changes.values()), call_id=call_id)
        lines = zip(self.writes, answer, strict=True)
        pushed, unsure = bulk.judge(lines, changes, push_lease.shop, now)
        return self._end(pushed, unsure=unsure, call_id=call_id)

    def fail(self, error: ProviderError | None = None, *, call_id: str | None = None) -> None:
        """Store the progress after a call that failed, or was not made."""
        now = self.bulk_push.clock.now()
        self.settle(bulk.failed(self.intent, self.step, error, now), call_id=call_id)

    def _end(
        self,
        pushed: Sequence[Pushed] = (),
        *,
        unsure: Sequence[Change] = (),
        voids: str = "",
        call_id: str | None = None,
    ) -> bool:
        """Settle every listing, and the intent with the last; unsure ones are to be read back."""
        now, id_, settle = self.bulk_push.clock.now(), self.intent.id, self.bulk_push.pushes.settle
        kept = [change.sku for change in unsure]
        settled = [*pushed, *bulk.apart(unsure, NO_ANSWER, now)]
        most = self.bulk_push.piece_max
        while len(settled) > most:
            piece, settled = settled[:most], settled[most:]
            narrows = {id_: sorted({*kept, *(result.change.sku for result in settled)})}
            if not settle(
                self.push_lease, piece, narrows=narrows, call_id=call_id, keeps_lease=True, now=now
            ):
                return False
        return settle(
            self.push_lease,
            settled,
            closes={} if kept or voids else {id_: push_results.summary(pushed)},
            voids={id_: voids} if voids else None,
            unbulks={id_: kept} if kept else None,
            call_id=call_id,
            now=now,
        )
