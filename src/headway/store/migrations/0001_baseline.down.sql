-- Drops every table with its rows. The role headway_seller stays: other databases of this server may
-- use it.
DROP TABLE runs, dispatch_leases;
DROP TABLE idempotency, login_attempts, sessions, login_links, access_keys;
DROP TABLE processes, outbox, notices, alert_states, freshness_samples;
DROP TABLE pauses;
DROP TABLE oauth_flows, webhook_deliveries, unreadable_records, payments, customers,
    listing_walks, listings,
    refunds, shipments, line_items, orders, sync_jobs;
DROP FUNCTION listing_search_matches;
DROP TABLE listing_search, push_intent, boeing_raw_data, product_staging, product, listing_state;
DROP TABLE timetable, family, market, product_sync_schedule;
DROP FUNCTION listing_search_rename, listing_search_enter, listing_trigrams;
DROP TABLE rate_budgets, supplier_locations, breaker, call_ledger, limiter;
DROP TABLE credential_refresh, credential, connected_accounts, suppliers, profiles;
DROP FUNCTION make_history_month;
DROP VIEW history_months;
DROP TABLE sync_audit_log;
DROP DOMAIN audit_event_type;
DO $$
BEGIN
    EXECUTE format('REVOKE USAGE ON SCHEMA %I FROM headway_seller', current_schema());
END $$;
