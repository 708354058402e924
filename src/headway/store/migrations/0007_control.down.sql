DROP TABLE freshness_samples;
DROP TRIGGER listing_search_rename ON product_staging;
DROP TRIGGER listing_search_rename ON product;
DROP TRIGGER listing_search_enter ON product_sync_schedule;
DROP FUNCTION listing_search_rename, listing_search_enter, listing_search_found;
DROP TABLE listing_search;
DROP FUNCTION listing_grams;
DROP INDEX listing_state_refused, product_sync_schedule_off, product_sync_schedule_parked,
    product_sync_schedule_retrying, product_sync_schedule_seller_plain, product_sync_schedule_plain;
DROP TABLE runs;
