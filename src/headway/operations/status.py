"""What the first screen shows, and the timetable of the day, of one application."""

from dataclasses import replace
from datetime import datetime

from headway.app import App
from headway.app.providers import has_supplier, shop_limit
from headway.app.supplier_queue import supplier_queue
from headway.core.catalog.listings import SellerId
from headway.core.limits.rules import Resource
from headway.core.timetable.day import DayTimetable
from headway.store.status import Overview, overview
from headway.store.timetable.hours import TimetableQueries

HOUR_MIN = 60


def look(app: App, *, seller: SellerId | None = None, seller_app: App | None = None) -> Overview:
    """Return the overview of the deployment, or of one seller; raises StoreError.

    `seller_app` is the same application, limited to that seller's rows.
    """
    status = app.limiter.status(app.limit_key)

    def resource_of(shop: str) -> Resource:
        return shop_limit(app.settings, shop, restore_per_s=app.shop_restore_per_s)

    now = app.clock.now()
    read = overview(
        app.pool,
        now,
        supplier=app.supplier,
        limit_key=app.limit_key,
        queue=lambda pool: supplier_queue(app, now, pool=pool, status=status),
        slack=app.rule.seat_rule.slack,
        minute_limit=app.settings.rate_limit,
        resource_of=resource_of,
        accounts=lambda pool: app.account_queries.through(pool).status(now, user_id=seller),
        currency=app.sellers.currency([] if seller is None else [seller]),
        seller=seller,
        seller_pool=None if seller_app is None else seller_app.pool,
    )
    return replace(read, has_supplier=has_supplier(app.settings, app.pool))


def day_of(app: App, now: datetime) -> DayTimetable:
    """Read the day around now: calls planned and made, and when what failed is tried again."""
    views = TimetableQueries(
        app.pool,
        seats=app.rule.seat_rule.seats,
        calls_per_hour=app.settings.rate_limit * app.settings.budget_share * HOUR_MIN,
    )
    return views.day(
        now,
        supplier=app.supplier,
        limit_key=app.limit_key,
        policy=app.policy,
        listed=app.schedule.listed(),
    )
