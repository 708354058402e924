"""Pause and resume, and the marks on listings that follow.

The row in `pauses` is the truth, and every claim checks it. Paused listings are also marked, in
batches, so that no claim scans a million of them. A pause that has ended stays, without effect,
until its listings are unmarked: if a process dies in between, the next round continues.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NoReturn

from psycopg import Connection
from psycopg.types.json import Jsonb
from pydantic_core import to_jsonable_python

from headway.core.catalog.listings import MAIN, SellerId, Sku, SupplierName
from headway.core.pauses import Pause, PauseKind, ResumeResult
from headway.core.reasons import describe_pause, describe_resumed
from headway.errors import ConflictError, ForbiddenError, InvalidError
from headway.store.pause_sql import IN_FORCE, is_listing_paused, is_seller_paused
from headway.store.pool import Pool, guarded
from headway.store.queries import Queries, read_as

BATCH = 5_000
# The maximum number of batches of a round, and of a command that a person waits for; the next round
# continues with the rest.
BATCHES_MAX, VERB_BATCHES_MAX = 10, 2

# A pause by an operator stays, whatever the seller does.
IS_OURS = f"""NOT (pause.is_imposed AND {IN_FORCE}
  AND coalesce(current_setting('headway.seller', true), '') <> '')"""
IMPOSED = "an operator paused it, and only an operator lets it go on"

# A pause that another person made does not end earlier because somebody pauses again.
IS_NO_EARLIER = f"""(%(replaces)s OR NOT {IN_FORCE}
  OR coalesce(excluded.until, 'infinity') >= coalesce(pause.until, 'infinity'))"""

# A pause of everything, or of a supplier, needs no marks: statements check it once.
PAUSE = f"""
INSERT INTO pauses AS pause
  (kind, user_id, sku, supplier, until, reason, actor, marked_at, created_at)
VALUES (%(kind)s, %(user_id)s, %(sku)s, %(supplier)s, %(until)s, %(reason)s, %(actor)s,
  CASE WHEN %(user_id)s::text IS NULL THEN %(now)s::timestamptz END, %(since)s)
ON CONFLICT ON CONSTRAINT pauses_target_unique DO UPDATE SET until = excluded.until,
  reason = excluded.reason, actor = excluded.actor, is_resumed = false, marked_to = '',
  marked_at = excluded.marked_at, created_at = excluded.created_at,
  is_imposed = excluded.is_imposed
WHERE {IS_OURS} AND {IS_NO_EARLIER}
"""
TARGET = """kind = %(kind)s AND user_id IS NOT DISTINCT FROM %(user_id)s
  AND sku IS NOT DISTINCT FROM %(sku)s AND supplier IS NOT DISTINCT FROM %(supplier)s"""
IS_IMPOSED = f"SELECT FROM pauses AS pause WHERE {TARGET} AND NOT ({IS_OURS})"
CURRENT = f"""
SELECT kind, user_id AS seller, sku, supplier, until, reason, actor, created_at AS since
FROM pauses AS pause WHERE {TARGET} AND {IN_FORCE} FOR UPDATE
"""
RESUME = f"""
UPDATE pauses AS pause SET until = %(now)s, is_resumed = true
WHERE {TARGET} AND {IN_FORCE}
"""
ADD_EVENT = """
INSERT INTO sync_audit_log
  (user_id, sku, sync_timestamp, event_type, old_value, new_value, error_message, created_at, actor)
VALUES (coalesce(%(user_id)s, ''), %(sku)s, %(at)s, %(event)s, %(old)s, %(details)s, %(reason)s,
  %(now)s,
  CASE WHEN NOT %(by_itself)s THEN nullif(current_setting('headway.actor', true), '') END)
"""
ACTIVE = f"""
SELECT kind, user_id AS seller, sku, supplier, until, reason, actor, created_at AS since
FROM pauses AS pause
WHERE {IN_FORCE} AND kind = ANY(%(kinds)s)
  AND (%(seller)s::text IS NULL OR user_id = %(seller)s OR user_id IS NULL
    AND (supplier IS NULL OR supplier = coalesce((
      SELECT profiles.supplier FROM profiles WHERE profiles.user_id = %(seller)s), '{MAIN}')))
ORDER BY user_id IS NOT NULL, supplier IS NOT NULL, created_at, kind, user_id, sku, supplier
LIMIT %(limit)s
"""
# If two workers handle the same pause, one of them has nothing to do.
UNFINISHED = """
SELECT id, kind, user_id, sku, supplier, until, is_resumed, marked_to, until <= %(now)s IS TRUE
FROM pauses WHERE until <= %(now)s OR marked_at IS NULL
ORDER BY created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
# New listings are added with the marks of current pauses. So none may be added while existing ones
# are marked; see `store.catalog.listings`.
ALONE = "SELECT pg_try_advisory_xact_lock(hashtextextended('headway intake', 0))"
MARK = """
WITH few AS (
  SELECT id, sku FROM product_sync_schedule
  WHERE user_id = %(user_id)s AND sku {which} ORDER BY sku LIMIT %(limit)s
), held AS (
  SELECT row.id FROM product_sync_schedule AS row JOIN few USING (id)
  WHERE NOT row.is_paused ORDER BY row.id FOR UPDATE OF row
), marked AS (
  UPDATE product_sync_schedule AS row SET is_paused = true FROM held WHERE row.id = held.id
)
SELECT count(*), max(sku) FROM few
"""
# A listing that another pause covers keeps its mark.
UNMARK = f"""
WITH few AS (
  SELECT id FROM product_sync_schedule AS row
  WHERE is_paused AND user_id = %(user_id)s AND sku {{which}}
    AND NOT {is_seller_paused("row")} AND NOT {is_listing_paused("row")} LIMIT %(limit)s
), held AS (
  SELECT row.id FROM product_sync_schedule AS row JOIN few USING (id)
  ORDER BY row.id FOR UPDATE OF row
), freed AS (
  UPDATE product_sync_schedule AS row SET is_paused = false FROM held WHERE row.id = held.id
)
SELECT count(*), NULL FROM few
"""
ALL_OF_SELLER, ONE_LISTING = "> %(after)s", "= %(sku)s"
MARKED_TO = "UPDATE pauses SET marked_to = %(to)s WHERE id = %(id)s"
MARKED = "UPDATE pauses SET marked_at = %(now)s WHERE id = %(id)s"
END = "DELETE FROM pauses WHERE id = %(id)s"


class Pauses(Queries):
    """The rows of `pauses`, and the marks on paused listings, `batch` by batch."""

    def __init__(self, pool: Pool, *, batch: int = BATCH, batches_max: int = BATCHES_MAX) -> None:
        super().__init__(pool)
        self._batch = batch
        self._batches_max = batches_max

    def pause(self, pause: Pause, now: datetime, *, replaces: bool = False) -> None:
        """Pause one target; see `pause_each`."""
        self.pause_each([pause], now, replaces=replaces)

    def pause_each(self, pauses: Sequence[Pause], now: datetime, *, replaces: bool = False) -> None:
        """Pause targets from the next statement on, all of them or none.

        Raises InvalidError if one would be over, ForbiddenError where an operator's pause stands,
        and, unless it `replaces`, ConflictError where one stands that ends later.
        """
        with guarded(), self._pool.connection() as connection, connection.transaction():
            for pause in pauses:
                if not pause.blocks(now):
                    raise InvalidError("a pause ends after it begins: give an instant to come")
                values = {
                    **_target(pause.kind, pause.seller, pause.sku, pause.supplier),
                    "until": pause.until,
                    "reason": pause.reason,
                    "actor": pause.actor,
                    "since": pause.since,
                    "now": now,
                    "replaces": replaces,
                }
                before = _current(connection, values)
                if connection.execute(PAUSE, values).rowcount == 0:
                    _refuse(connection, values, now)
                old = before and {"until": before.until, "by": before.actor, "why": before.reason}
                _add_event(connection, {**values, "old": old}, event="sync_paused", at=now)
        self._reconcile(now, min(VERB_BATCHES_MAX, self._batches_max))

    def resume(
        self,
        kind: PauseKind,
        seller: SellerId | None = None,
        sku: Sku | None = None,
        *,
        supplier: SupplierName | None = None,
        reason: str = "",
        now: datetime,
    ) -> ResumeResult:
        """Resume one target; see `resume_each`."""
        targets = [(seller, sku)]
        return self.resume_each(kind, targets, supplier=supplier, reason=reason, now=now)[0]

    def resume_each(
        self,
        kind: PauseKind,
        targets: Sequence[tuple[SellerId | None, Sku | None]],
        *,
        supplier: SupplierName | None = None,
        reason: str = "",
        now: datetime,
    ) -> list[ResumeResult]:
        """Resume targets, all of them or none; the result says what another pause still covers.

        Raises ForbiddenError for a seller, if the pause is an operator's.
        """
        ended: dict[tuple[SellerId | None, Sku | None], bool] = {}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            for seller, sku in targets:
                values = {**_target(kind, seller, sku, supplier), "reason": reason, "now": now}
                if connection.execute(IS_IMPOSED, values).fetchone() is not None:
                    raise ForbiddenError(IMPOSED)
                ended[seller, sku] = connection.execute(RESUME, values).rowcount == 1
                if ended[seller, sku]:
                    _add_event(connection, values, event="sync_resumed", at=now)
            others = {
                seller: active_pauses(connection, now, seller=seller)
                for seller in dict.fromkeys(seller for seller, _ in targets)
            }
        self._reconcile(now, min(VERB_BATCHES_MAX, self._batches_max))
        results = [
            ResumeResult(
                kind=kind, seller=seller, sku=sku, supplier=supplier, is_done=is_done, message=""
            )
            for (seller, sku), is_done in ended.items()
        ]
        return [
            replace(result, message=describe_resumed(result, others[result.seller], now))
            for result in results
        ]

    def active(self, now: datetime, *, seller: SellerId | None = None) -> list[Pause]:
        """Return the pauses in force, oldest first; with a seller, those that apply to it."""
        with guarded(), self._pool.connection() as connection:
            return active_pauses(connection, now, seller=seller)

    def reconcile(self, now: datetime) -> int:
        """Mark paused listings and unmark others, a few batches at once; return how many."""
        return self._reconcile(now, self._batches_max)

    def _reconcile(self, now: datetime, batches_max: int) -> int:
        count = 0
        for _ in range(batches_max):
            with guarded(), self._pool.connection() as connection, connection.transaction():
                moved = _go_on(connection, now, self._batch)
            if moved is None:
                break
            count += moved
        return count


def active_pauses(
    connection: Connection[Any],
    now: datetime,
    *,
    seller: SellerId | None = None,
    kinds: Collection[PauseKind] = tuple(PauseKind),
    limit: int | None = None,
) -> list[Pause]:
    """Return the pauses in force, those for all sellers first, in the caller's transaction."""
    values = {"now": now, "seller": seller, "kinds": list(kinds), "limit": limit}
    return read_as(connection, Pause, ACTIVE, values)


def _go_on(connection: Connection[Any], now: datetime, batch: int) -> int | None:
    """Mark a batch of the first unfinished pause; return None if all are done."""
    row = connection.execute(UNFINISHED, {"now": now}).fetchone()
    if row is None:
        return None
    id_, kind, user_id, sku, supplier, until, is_resumed, marked_to, is_over = row
    values = {**_target(kind, user_id, sku, supplier), "id": id_, "now": now, "limit": batch}
    count, last = 0, None
    if user_id is not None:
        if connection.execute(ALONE).fetchone() != (True,):
            return None
        which = ALL_OF_SELLER if sku is None else ONE_LISTING
        statement = (UNMARK if is_over else MARK).format(which=which)
        after = "" if is_over else marked_to
        count, last = connection.execute(statement, {**values, "after": after}).fetchone() or (0, 0)
    if count >= batch:
        connection.execute(MARKED_TO, {**values, "to": last or ""})
    elif not is_over:
        connection.execute(MARKED, values)
    else:
        connection.execute(END, values)
        if not is_resumed:
            # It ended by itself; the process that cleans up is not the actor.
            ended = {**values, "until": until}
            _add_event(connection, ended, event="sync_resumed", at=until, by_itself=True)
    return int(count)


def _target(
    kind: PauseKind,
    seller: SellerId | None,
    sku: Sku | None,
    supplier: SupplierName | None,
) -> dict[str, Any]:
    return {"kind": str(kind), "user_id": seller, "sku": sku, "supplier": supplier}


def _current(connection: Connection[Any], values: Mapping[str, Any]) -> Pause | None:
    """Return the pause of this very target that is in force."""
    return next(iter(read_as(connection, Pause, CURRENT, values)), None)


def _refuse(connection: Connection[Any], values: Mapping[str, Any], now: datetime) -> NoReturn:
    """Raise the error that says why a pause was not made."""
    current = _current(connection, values)
    if current is None or connection.execute(IS_IMPOSED, values).fetchone() is not None:
        raise ForbiddenError(IMPOSED)
    raise ConflictError(
        f"{current.what} is {describe_pause(current, now)}. Your pause would end earlier."
        " To end it earlier, pause with replace, or resume it first."
    )


def _add_event(
    connection: Connection[Any],
    values: Mapping[str, Any],
    *,
    event: str,
    at: datetime,
    by_itself: bool = False,
) -> None:
    until = values.get("until")
    details = {"kind": values["kind"], "until": until and until.isoformat()}
    if values["supplier"] is not None:
        details["supplier"] = values["supplier"]
    reason = values.get("reason") or None
    old = None if values.get("old") is None else Jsonb(to_jsonable_python(values["old"]))
    more = {"event": event, "details": Jsonb(details), "reason": reason, "at": at, "old": old}
    connection.execute(ADD_EVENT, {**values, **more, "by_itself": by_itself})
