DROP TABLE credential_refresh;
DROP TABLE credential;
DROP TABLE breaker;
DROP TABLE call_ledger;
DROP TABLE limiter;
DROP TABLE sync_audit_log;
DROP TABLE listing_state;
DROP TABLE product_sync_schedule;
