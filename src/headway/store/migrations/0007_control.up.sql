-- Simulations and plans that somebody asked for over the API, and how far they are. Each is run by
-- one server, in a process of its own; the lease says until when that server is believed to live.
CREATE TABLE runs (
    id uuid PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('simulate', 'plan')),
    request jsonb NOT NULL,
    status text NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    progress double precision NOT NULL DEFAULT 0 CHECK (progress BETWEEN 0 AND 1),
    result jsonb,
    error text NOT NULL DEFAULT '',
    actor text NOT NULL DEFAULT '',
    lease_owner text,
    lease_until timestamptz,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    CONSTRAINT runs_lease CHECK (
        (status = 'running') = (lease_until IS NOT NULL)
        AND (lease_until IS NULL) = (lease_owner IS NULL)
    )
);
CREATE INDEX runs_newest ON runs (created_at DESC, id DESC);
CREATE INDEX runs_open ON runs (created_at, id) WHERE status IN ('queued', 'running');

-- How listings are looked through. A page by state is a short range of one of these, for all sellers
-- or for one. What is plainly waiting is ordered by its last good read; whatever stands apart, by
-- name. Being read has none: few are, and the index of their leases finds them; nor has being paused,
-- which migration 0005 gave one.
CREATE INDEX product_sync_schedule_plain
    ON product_sync_schedule (last_successful_sync, user_id, sku)
    WHERE is_active AND sync_status <> 'syncing' AND consecutive_failures = 0 AND NOT is_paused;
CREATE INDEX product_sync_schedule_seller_plain
    ON product_sync_schedule (user_id, last_successful_sync, sku)
    WHERE is_active AND sync_status <> 'syncing' AND consecutive_failures = 0 AND NOT is_paused;
CREATE INDEX product_sync_schedule_retrying ON product_sync_schedule (user_id, sku)
    WHERE is_active AND consecutive_failures > 0 AND sync_status <> 'syncing' AND NOT is_paused;
CREATE INDEX product_sync_schedule_parked ON product_sync_schedule (user_id, sku)
    WHERE sync_status = 'parked';
CREATE INDEX product_sync_schedule_off ON product_sync_schedule (user_id, sku)
    WHERE NOT is_active AND sync_status <> 'parked';
-- What a shop refused is found among any number of writes that merely wait.
CREATE INDEX listing_state_refused ON listing_state (user_id, push_failures DESC, sku)
    WHERE push_at IS NOT NULL AND push_failures > 0;

-- What the text of a listing holds, apart from the schedule, whose rows every read moves. `place` is
-- an order without rhyme or reason: any piece of it is a fair sample.
CREATE TABLE listing_search (
    user_id text NOT NULL,
    sku text NOT NULL,
    shop_sku text NOT NULL DEFAULT '',
    title text NOT NULL DEFAULT '',
    folded text COLLATE "C" NOT NULL GENERATED ALWAYS AS (lower(sku)) STORED,
    place bigint NOT NULL
        GENERATED ALWAYS AS (hashtextextended(user_id || chr(1) || sku, 0)) STORED,
    words text NOT NULL
        GENERATED ALWAYS AS (lower(sku || chr(1) || shop_sku || chr(1) || title)) STORED,
    PRIMARY KEY (user_id, sku),
    FOREIGN KEY (user_id, sku) REFERENCES product_sync_schedule (user_id, sku)
        ON UPDATE CASCADE ON DELETE CASCADE
);
ALTER TABLE listing_search ENABLE ROW LEVEL SECURITY;
CREATE POLICY seller ON listing_search TO headway_seller
    USING (user_id = (SELECT current_setting('headway.seller', true)))
    WITH CHECK (user_id = (SELECT current_setting('headway.seller', true)));
GRANT SELECT ON listing_search TO headway_seller;
CREATE INDEX listing_search_place ON listing_search (place);
CREATE INDEX listing_search_seller_place ON listing_search (user_id, place, sku);
CREATE INDEX listing_search_folded ON listing_search (folded);
CREATE INDEX listing_search_seller_folded ON listing_search (user_id, folded);

-- Every three characters in a row, and whose they are, as numbers that an index holds.
CREATE FUNCTION listing_grams(words text, user_id text) RETURNS integer[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_remove(array_append(array_agg(hashtext(substr(words, place, 3))),
                                     hashtext(chr(1) || user_id)), NULL)
    FROM generate_series(1, length(words) - 2) AS place
$$;
-- A search reads what waits to enter the index row by row: let it be little.
CREATE INDEX listing_search_grams ON listing_search USING gin (listing_grams(words, user_id))
    WITH (gin_pending_list_limit = 256);

-- Behind the wall an index may not ask what a row contains before the wall has let the row pass;
-- this may, and is a wall itself.
CREATE FUNCTION listing_search_found(piece text, seller text) RETURNS SETOF listing_search
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT * FROM listing_search
    WHERE listing_grams(words, user_id) @> listing_grams(piece, seller)
      AND strpos(words, piece) > 0
      AND user_id = coalesce(seller, user_id)
      AND (current_setting('role') <> 'headway_seller'
           OR user_id = current_setting('headway.seller', true))
$$;
REVOKE EXECUTE ON FUNCTION listing_search_found FROM PUBLIC;
GRANT EXECUTE ON FUNCTION listing_search_found TO headway_seller;

-- Whoever writes a listing, or what the shop calls it, writes here.
CREATE FUNCTION listing_search_enter() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO listing_search (user_id, sku, shop_sku, title)
    SELECT entered.user_id, entered.sku, coalesce(product.shop_sku, staging.shop_sku, ''),
        coalesce(nullif(product.title, ''), staging.title, '')
    FROM entered LEFT JOIN product USING (user_id, sku)
        LEFT JOIN product_staging AS staging USING (user_id, sku);
    RETURN NULL;
END $$;
CREATE TRIGGER listing_search_enter AFTER INSERT ON product_sync_schedule
    REFERENCING NEW TABLE AS entered FOR EACH STATEMENT EXECUTE FUNCTION listing_search_enter();
CREATE FUNCTION listing_search_rename() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    key record := coalesce(new, old);
BEGIN
    UPDATE listing_search AS row SET shop_sku = told.shop_sku, title = told.title
    FROM (SELECT coalesce(product.shop_sku, staging.shop_sku, '') AS shop_sku,
              coalesce(nullif(product.title, ''), staging.title, '') AS title
          FROM (SELECT) AS one
          LEFT JOIN product ON product.user_id = key.user_id AND product.sku = key.sku
          LEFT JOIN product_staging AS staging
              ON staging.user_id = key.user_id AND staging.sku = key.sku) AS told
    WHERE row.user_id = key.user_id AND row.sku = key.sku
      AND (row.shop_sku, row.title) <> (told.shop_sku, told.title);
    RETURN NULL;
END $$;
CREATE TRIGGER listing_search_rename
    AFTER INSERT OR DELETE OR UPDATE OF user_id, sku, shop_sku, title ON product
    FOR EACH ROW EXECUTE FUNCTION listing_search_rename();
CREATE TRIGGER listing_search_rename
    AFTER INSERT OR DELETE OR UPDATE OF user_id, sku, shop_sku, title ON product_staging
    FOR EACH ROW EXECUTE FUNCTION listing_search_rename();
INSERT INTO listing_search (user_id, sku, shop_sku, title)
SELECT row.user_id, row.sku, coalesce(product.shop_sku, staging.shop_sku, ''),
    coalesce(nullif(product.title, ''), staging.title, '')
FROM product_sync_schedule AS row LEFT JOIN product USING (user_id, sku)
    LEFT JOIN product_staging AS staging USING (user_id, sku);

-- How fresh the listings were, every five minutes, by what their sellers pay for.
CREATE TABLE freshness_samples (
    at timestamptz NOT NULL,
    tier text NOT NULL CHECK (tier IN ('free', 'starter', 'growth', 'pro')),
    total integer NOT NULL,
    parked integer NOT NULL,
    paused integer NOT NULL,
    fresh integer NOT NULL,
    stale integer NOT NULL,
    unread integer NOT NULL,
    -- How many were younger than promised, and what was promised then.
    kept integer NOT NULL,
    promise_min double precision NOT NULL,
    oldest_read_at timestamptz,
    PRIMARY KEY (at, tier)
);
