"""A database in which every table says something about two sellers, and a dump of all of it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from psycopg import sql
from psycopg_pool import ConnectionPool
from tests.statements import Statements

from headway.app.accounts import connect_account
from headway.core.accounts.jobs import Account, DataKind, PlatformName
from headway.core.accounts.pagination import Page, PageStep
from headway.core.accounts.warehouse import (
    Customer,
    LineItem,
    Order,
    Payment,
    Records,
    Refund,
    Shipment,
    ShopListing,
    Unreadable,
)
from headway.core.catalog.listings import SellerId
from headway.store.accounts.customer_erasure import customer_subject
from headway.store.accounts.erasure_requests import enter, whole_subject
from headway.store.accounts.erasures import Erasures
from headway.store.accounts.warehouse import write
from headway_lab.platforms import ETSY, SHOPIFY

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=20)
FILL = Path(__file__).with_name("erasure_world.sql").read_text(encoding="utf-8")


def dump(pool: ConnectionPool) -> str:
    """Return every row of every table, as COPY writes them, each after its table's name."""
    lines = []
    with pool.connection() as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " AND relkind = 'r' ORDER BY 1"
        ).fetchall()
        for (table,) in tables:
            copied = sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))
            with connection.cursor().copy(copied) as rows:
                text = b"".join(bytes(block) for block in rows).decode()
            lines += [f"{table}: {line}" for line in text.splitlines()]
    return "\n".join(lines)


def mentions(pool: ConnectionPool, *words: str) -> list[str]:
    """Return the lines of a dump that contain one of these, also as the bytes of a column."""
    spellings = [form.lower() for word in words for form in (word, word.encode().hex())]
    return [line for line in dump(pool).splitlines() if any(x in line.lower() for x in spellings)]


@dataclass
class ErasureWorld(Statements):
    """Sellers with a Shopify and an Etsy shop, and an entry about each in every table."""

    pool: ConnectionPool
    accounts: dict[tuple[str, PlatformName], Account] = field(default_factory=dict)

    @property
    def erasures(self) -> Erasures:
        return Erasures(self.pool)

    def connect(
        self,
        seller: str,
        platform: PlatformName,
        *,
        after_erasure: bool = False,
        now: datetime = NOW,
    ) -> Account:
        number = str(sum(seller.encode()) * 100_003)
        connected = connect_account(
            self.pool,
            SellerId(seller),
            f"{seller}-goods.myshopify.com" if platform == SHOPIFY else number,
            platform=platform,
            title=f"{seller.title()} Goods",
            after_erasure=after_erasure,
            now=now,
        )
        self.accounts[seller, platform] = connected.bare
        return connected.bare

    def settle(self, seller: str) -> None:
        """Store a seller with shops, parts and people; each buyer has orders in both shops."""
        self.ask("INSERT INTO profiles (user_id) VALUES (%s)", seller)
        for platform in (SHOPIFY, ETSY):
            account = self.connect(seller, platform)
            for number in (1, 2):
                self.put(account, page_of(seller, number))
            values = {"seller": seller, "account": account.id, "shop": account.shop, "now": NOW,
                      "customer": buyer_id(seller, 1)}  # fmt: skip
        account = self.accounts[seller, SHOPIFY]
        values |= {"account": account.id, "shop": account.shop}
        with self.pool.connection() as connection:
            for statement in filter(str.strip, FILL.split(";\n")):
                connection.execute(statement.encode(), values)

    def put(self, account: Account, records: Records, *, missing: tuple[str, ...] = ()) -> None:
        """Store a page as a job does."""
        ids = tuple(order.external_id for order in records.orders)
        page = Page(records=records, ids=ids, missing=missing)
        with self.pool.connection() as connection, connection.transaction():
            step = PageStep(cursor={}, is_done=True)
            write(connection, account, page, step, kind=DataKind.ORDERS, asked_at=NOW, now=NOW)

    def erase_fully(self, id_: str) -> None:
        """Erase, and look for late writes once more when the time has come."""
        self.erasures.run(id_, now=NOW)
        self.erasures.run(id_, now=LATER)

    def rows(self, table: str, seller: str) -> int:
        (count,) = self.one(f"SELECT count(*), 1 FROM {table} WHERE user_id = %s", seller)[:1]
        return int(count)


def erase_whole(
    world: ErasureWorld, seller: str, account: str | None = None, *, now: datetime = NOW
) -> str:
    """Request to erase a seller, or one account; return the erasure's id."""
    with world.pool.connection() as connection:
        subject = whole_subject(connection, SellerId(seller), account)
    return world.erasures.request(subject, cause="person", actor="operations", now=now).id


def erase_buyer(world: ErasureWorld, seller: str, number: int, *, now: datetime = NOW) -> str:
    """Request to erase a buyer in all shops of a seller; return the erasure's id."""
    with world.pool.connection() as connection, connection.transaction():
        accounts = whole_subject(connection, SellerId(seller)).accounts
        subject = customer_subject(
            connection, SellerId(seller), accounts, customer_ids=[buyer_id(seller, number)]
        )
        return enter(connection, subject, cause="person", actor="operations", now=now).id


def buyer_id(seller: str, number: int) -> str:
    """Return the id of a buyer."""
    return f"{sum(seller.encode())}77000{number}"


def buyer_words(seller: str, number: int) -> tuple[str, ...]:
    """Return what is known of a buyer."""
    name = f"Buyer{number} Of{seller}"
    return name, f"b{number}@{seller}.example", f"TRACK-{seller}-{number}", buyer_id(seller, number)


def page_of(seller: str, number: int) -> Records:
    """Return a page with one buyer, an order of theirs, and a row that cannot be read."""
    name, email, tracking, id_ = buyer_words(seller, number)
    money = Decimal("9.50")
    order = Order(
        external_id=f"{id_}9", status="paid", is_open=number == 1, currency="EUR", total=money,
        placed_at=NOW - timedelta(days=number), customer_id=id_, number=f"#{number}",
        line_items=(LineItem(external_id=f"L{number}", quantity=1, price=money, currency="EUR"),),
        shipments=(Shipment(external_id="S1", tracking=tracking),),
        refunds=(Refund(external_id="R1", amount=money, currency="EUR", reason=f"{name} asked"),),
    )  # fmt: skip
    raw = {"id": f"{id_}8", "buyer": {"id": int(id_), "mail": email.upper()}, "to": name}
    return Records(
        orders=(order,),
        customers=(Customer(external_id=id_, name=name, email=email, country="AT"),),
        listings=(ShopListing(external_id=f"{number}", state="active", title=f"{seller} thing"),),
        payments=(Payment(external_id=f"P{number}", kind="sale", amount=money, currency="EUR",
                          paid_at=NOW, order_id=order.external_id),),
        unreadable=(Unreadable(kind="orders", external_id=f"{id_}8", reason="odd", raw=raw),),
    )  # fmt: skip
