-- post: older code claims by this index.
DROP INDEX product_sync_schedule_claim;
