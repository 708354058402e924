DROP TABLE freshness_samples;
DROP TRIGGER listing_search_rename ON product_staging;
DROP TRIGGER listing_search_rename ON product;
DROP TRIGGER listing_search_enter ON product_sync_schedule;
DROP FUNCTION listing_search_rename, listing_search_enter, listing_search_found;
DROP TABLE listing_search;
DROP FUNCTION listing_grams;
DROP INDEX product_sync_schedule_apart, product_sync_schedule_seller_plain,
    product_sync_schedule_plain;
DROP TABLE runs;
