"""The faults that a simulation can plant, as examples of how they are written."""

CATALOG_FAULTS = (
    "outage:6h@10:00, outage:6h@1d10:00, timeout:5%, error:5%, slow:10%, truncate:1%, html:1%,"
    " drop:1%, duplicate:5%, crash:1/h, stall:1/h, away:2h@10:00, clock:90s, poison:2,"
    " vanish:3@10:00, badprice:3@10:00, contradict:8@10:00, rename:1@10:00,"
    " no-currency:2h@10:00, shop-outage:2h@10:00, shop-lost-reply:5%,"
    " shop-lost-request:5%, shop-error:5%, shop-slow:5%, shop-html:1%, shop-throttle:5%,"
    " shop-poison:3, shop-stale:55@10:00, shop-edit:3/d, shop-sale:20/d, pause:2h@10:00,"
    " pause-supplier:2h@10:00, pause-seller:2h@10:00"
)
ACCOUNT_FAULTS = (
    "crash:1/h, stall:1/h, clock:90s, outage:2h@10:00, outage:2h@1d10:00, timeout:2%, error:2%,"
    " slow:5%, html:1%, webhook-flood:2000, poison:5, page-poison:1, endless:1, wrong-403:10m,"
    " wrong-403:10m@10:00; all but the first three also of one platform: etsy-, shopify- or"
    " printify-outage:..."
)
