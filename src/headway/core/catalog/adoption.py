"""The plan for taking over a database that was made by one of the design documents.

Its tables have names of ours and other columns. Each column is kept under its name, renamed to
ours, or carried along unchanged if Headway has no use for it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headway.core.catalog.intake import seller_of, sku_of
from headway.errors import InvalidError

SCHEDULE = "product_sync_schedule"
HISTORY = "sync_audit_log"
# The tables that the documents describe, in the order in which they are filled.
TABLES = (SCHEDULE, "product", "product_staging", "boeing_raw_data", HISTORY)
SHOWN_MAX = 5
# Which column of theirs fills one of ours; the first that exists. Others keep their name.
RENAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    SCHEDULE: {
        "last_error": ("last_error", "last_sync_error"),
        "last_price": ("last_price", "last_boeing_price"),
        "last_quantity": ("last_quantity", "last_boeing_quantity"),
        "last_inventory_status": ("last_boeing_in_stock",),
        "hour_bucket": ("hour_bucket", "sync_slot"),
        "minute_offset": ("minute_offset", "sync_slot"),
    },
    "product": {
        "shopify_product_id": ("shopify_product_id", "shopify_id"),
        "inventory_quantity": ("inventory_quantity", "quantity"),
    },
    "product_staging": {
        "shopify_product_id": ("shopify_product_id", "shopify_id"),
        "inventory_quantity": ("inventory_quantity", "quantity"),
    },
}
# Columns of the same name that mean something else there.
OTHERS: Mapping[str, frozenset[str]] = {
    "product": frozenset({"status", "former_status", "shop_sku"}),
    "product_staging": frozenset({"status", "reason", "shop_sku", "details"}),
}
# The documents' types of events; a table that was changed may hold others.
EVENT_TYPES = (
    "sync_started", "sync_completed", "sync_failed", "price_changed", "quantity_changed",
    "stock_status_changed", "shopify_updated", "shopify_update_failed", "product_deactivated",
    "dispatch_started",
)  # fmt: skip


class DesignDocument(StrEnum):
    """The design document whose SQL made a database."""

    SYSTEM_DESIGN = "system-design"
    SEPARATE_RETRY = "separate-scheduled-and-retry"
    PLAN_V2 = "implementation-plan-v2"
    SIMPLIFIED = "simplified-implementation"
    PRODUCTS_ONLY = "products without a schedule"


POLICY_OF = {
    DesignDocument.SYSTEM_DESIGN: "packed",
    DesignDocument.SEPARATE_RETRY: "split",
    DesignDocument.PLAN_V2: "anchored",
    DesignDocument.SIMPLIFIED: "rolling",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """A table as the database describes it: its columns with their types, and how many rows."""

    columns: Mapping[str, str]
    rows: int = 0
    kind: str = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAdoption:
    """What becomes of one table: each name is a column."""

    table: str
    rows: int
    kept: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    carried: tuple[tuple[str, str], ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionPlan:
    """What a takeover would do; while something is impossible, nothing is done.

    `not_carried` names what of the former tables ours do not get, each as a sentence.
    """

    document: DesignDocument
    tables: tuple[TableAdoption, ...]
    new_tables: tuple[str, ...]
    set_aside: tuple[str, ...]
    impossible: tuple[str, ...]
    notes: tuple[str, ...]
    not_carried: tuple[str, ...] = ()

    @property
    def policy(self) -> str | None:
        """The policy that keeps the slots of the document's schedule."""
        return POLICY_OF.get(self.document)


def recognize(theirs: Mapping[str, TableShape]) -> DesignDocument | None:
    """Return the document that a database was made by; None if none of its tables is there."""
    schedule = theirs.get(SCHEDULE)
    if schedule is None:
        is_shop = "product" in theirs or "product_staging" in theirs
        return DesignDocument.PRODUCTS_ONLY if is_shop else None
    marks = {
        "sync_slot": DesignDocument.SIMPLIFIED,
        "last_sync_status": DesignDocument.PLAN_V2,
        "last_successful_sync": DesignDocument.SEPARATE_RETRY,
        "hour_bucket": DesignDocument.SYSTEM_DESIGN,
    }
    return next((marks[name] for name in marks if name in schedule.columns), None)


def plan_adoption(
    theirs: Mapping[str, TableShape],
    ours: Mapping[str, TableShape],
    *,
    obstacles: Collection[str] = (),
    names: Collection[tuple[str, str]] = (),
) -> AdoptionPlan | None:
    """Return what becomes of each table and column; None if the database is none of these.

    `names` are the sellers and part numbers of the schedule, and `obstacles` what the database
    already knows to be in the way.
    """
    document = recognize(theirs)
    if document is None:
        return None
    keyed = [
        table
        for table in TABLES
        if table in theirs and {"user_id", "sku"} <= theirs[table].columns.keys()
    ]
    set_aside = tuple(table for table in TABLES if table in theirs and table not in keyed)
    impossible = [*obstacles, *_clashes(theirs, ours), *_invalid_names(names)]
    if SCHEDULE in set_aside:
        impossible.append(f"{SCHEDULE} has no columns user_id and sku")
    return AdoptionPlan(
        document=document,
        tables=tuple(_plan_table(table, theirs[table], ours[table]) for table in keyed),
        new_tables=tuple(sorted(ours.keys() - theirs.keys())),
        set_aside=set_aside,
        impossible=tuple(impossible),
        notes=_notes(document, set_aside),
    )


def source_of(table: str, column: str, theirs: Collection[str]) -> str | None:
    """Return the column of theirs that fills one of ours; None if there is none."""
    if column in OTHERS.get(table, ()):
        return None
    candidates = RENAMES.get(table, {}).get(column, (column,))
    return next((name for name in candidates if name in theirs), None)


def _plan_table(table: str, theirs: TableShape, ours: TableShape) -> TableAdoption:
    sources = {column: source_of(table, column, theirs.columns) for column in ours.columns}
    used = set(sources.values())
    # Where their name is still one of ours, as a generated column, readers find it there.
    renamed = [
        (source, column) for column, source in sources.items() if source and source != column
    ]
    left = [column for column in theirs.columns if column not in used]
    # A generated column of ours shows again what was renamed.
    carried = [
        (column, f"{column}_before_headway" if column in ours.columns else column)
        for column in left
        if column not in {source for source, _ in renamed}
    ]
    return TableAdoption(
        table=table,
        rows=theirs.rows,
        kept=tuple(column for column, source in sources.items() if source == column),
        renamed=tuple(renamed),
        carried=tuple(carried),
        added=tuple(column for column, source in sources.items() if source is None),
    )


def _clashes(theirs: Mapping[str, TableShape], ours: Mapping[str, TableShape]) -> list[str]:
    """Return the tables in the way: other tables of our names, and views for tables."""
    others = sorted((theirs.keys() & ours.keys()) - set(TABLES))
    clashes = [
        f"{name} exists, and Headway has a table of that name: rename it, or give Headway a"
        " database of its own with the documents' tables"
        for name in others
    ]
    return clashes + [
        f"{name} is a {shape.kind}, not a table"
        for name, shape in theirs.items()
        if name in TABLES and shape.kind != "table"
    ]


def _invalid_names(names: Collection[tuple[str, str]]) -> list[str]:
    """Return a line if sellers or part numbers cannot be ones."""
    invalid = [f"{seller!r} {sku!r}" for seller, sku in names if not _is_valid(seller, sku)]
    if not invalid:
        return []
    shown = ", ".join(sorted(invalid)[:SHOWN_MAX])
    reason = (
        f"{len(invalid):,} rows of {SCHEDULE} have a seller or part number that cannot be one"
        f" (empty, spaces around it, control characters): {shown}; correct or delete them"
    )
    return [reason]


def _is_valid(seller: str, sku: str) -> bool:
    try:
        return (seller_of(seller), sku_of(sku)) == (seller, sku)
    except InvalidError:
        return False


def _notes(document: DesignDocument, set_aside: Sequence[str]) -> tuple[str, ...]:
    notes = [
        f"{table} names no seller and part number; it is set aside, and Headway begins a new one"
        for table in set_aside
    ]
    if policy := POLICY_OF.get(document):
        notes.append(
            f"to keep the slots of this schedule set HEADWAY_POLICY={policy}; any other policy"
            " gives the parts new slots at its first start"
        )
    else:
        notes.append("the products have no schedule yet; give them their slots: headway backfill")
    return tuple(notes)
