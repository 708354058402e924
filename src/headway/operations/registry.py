"""Every operation there is; the order is that of the API's document."""

from typing import Any

from headway.operations import (
    account_commands,
    account_import,
    accounts,
    alerts,
    changes,
    deployment,
    erasures,
    history,
    imports,
    jobs,
    laws,
    limits,
    listings,
    notify,
    part_removal,
    pauses,
    people,
    privacy,
    probe,
    providers,
    publishing,
    recordings,
    records,
    rehearsals,
    removals,
    runs,
    sellers,
    shared_permits,
    shop_groups,
    shop_links,
    shops,
    suppliers,
    terms,
    webhook_endpoints,
)
from headway.operations.operation import ApiOperation

NOUNS = (
    deployment, listings, imports, history, changes, part_removal, pauses, publishing, accounts,
    account_commands, account_import, jobs, removals, shops, shop_groups, rehearsals, shop_links,
    erasures, privacy, terms, suppliers, probe, recordings, providers, alerts, limits,
    shared_permits, laws, notify, webhook_endpoints, runs, people, sellers, records,
)  # fmt: skip
OPERATIONS: tuple[ApiOperation[Any, Any, Any], ...] = tuple(
    declared
    for noun in NOUNS
    for declared in vars(noun).values()
    if isinstance(declared, ApiOperation) and declared.function.__module__ == noun.__name__
)
