-- Who may come in, who did what, and the wall between sellers that the database itself keeps.

-- Who did it: a key's name, a session's, or the command line's, told by the transaction.
ALTER TABLE sync_audit_log
    ADD COLUMN actor text DEFAULT nullif(current_setting('headway.actor', true), '');

-- Keys, as digests: whoever reads this table can let nobody in.
CREATE TABLE access_keys (
    id uuid PRIMARY KEY,
    name text NOT NULL CHECK (name <> ''),
    prefix text NOT NULL,
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    role text NOT NULL CHECK (role IN ('operator', 'seller', 'reader')),
    user_id text CHECK (user_id <> ''),
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT access_keys_seller CHECK (CASE role
        WHEN 'seller' THEN user_id IS NOT NULL
        WHEN 'operator' THEN user_id IS NULL
        ELSE true END)
);
-- A name is what the audit shows, so two keys that work never share one.
CREATE UNIQUE INDEX access_keys_name ON access_keys (name) WHERE revoked_at IS NULL;

-- Links that log a browser in, once.
CREATE TABLE login_links (
    hash bytea PRIMARY KEY CHECK (length(hash) = 32),
    name text NOT NULL CHECK (name <> ''),
    role text NOT NULL CHECK (role IN ('operator', 'seller', 'reader')),
    user_id text CHECK (user_id <> ''),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT login_links_seller CHECK (CASE role
        WHEN 'seller' THEN user_id IS NOT NULL
        WHEN 'operator' THEN user_id IS NULL
        ELSE true END)
);

-- Browsers that are logged in, by a key or by a link; a session ends with its key.
CREATE TABLE sessions (
    id uuid PRIMARY KEY,
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    key_id uuid REFERENCES access_keys (id) ON DELETE CASCADE,
    name text NOT NULL CHECK (name <> ''),
    role text NOT NULL CHECK (role IN ('operator', 'seller', 'reader')),
    user_id text CHECK (user_id <> ''),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    CONSTRAINT sessions_seller CHECK (CASE role
        WHEN 'seller' THEN user_id IS NOT NULL
        WHEN 'operator' THEN user_id IS NULL
        ELSE true END)
);
CREATE INDEX sessions_over ON sessions (expires_at);

-- Wrong logins from an address, counted by all processes together.
CREATE TABLE login_tries (
    address text PRIMARY KEY,
    tries integer NOT NULL CHECK (tries > 0),
    begun_at timestamptz NOT NULL
);

-- What was asked under an Idempotency-Key, and what was answered.
CREATE TABLE idempotency (
    principal text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
    state text NOT NULL DEFAULT 'begun' CHECK (state IN ('begun', 'done')),
    owner uuid NOT NULL,
    lease_until timestamptz NOT NULL,
    status integer,
    content_type text,
    body bytea,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (principal, key),
    CONSTRAINT idempotency_answer CHECK ((state = 'done') = (status IS NOT NULL)
        AND (state = 'done') = (body IS NOT NULL))
);
CREATE INDEX idempotency_time ON idempotency (created_at);

-- The role a request works under on behalf of one seller. Roles belong to the whole server: another
-- database may have made it, or be making it at this very moment.
DO $$
DECLARE
    may_set text := CASE WHEN current_setting('server_version_num')::integer >= 160000
        THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'headway_seller') THEN
        BEGIN
            CREATE ROLE headway_seller NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END IF;
    IF NOT pg_has_role(session_user, 'headway_seller', may_set) THEN
        BEGIN
            EXECUTE format('GRANT headway_seller TO %I', session_user);
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    -- HW001 is what a person must mend before it can be tried again.
    RAISE EXCEPTION USING ERRCODE = 'HW001', MESSAGE = format(
        'this user may not make the role headway_seller; let an administrator run:'
        ' CREATE ROLE headway_seller NOLOGIN; GRANT headway_seller TO %I;'
        ' (the first only if there is no such role)', session_user);
END $$;

-- The wall: under that role only rows of the seller whom the transaction named exist. The owner of
-- the tables, which is the engine, is not bound by it.
DO $$
DECLARE
    each text;
BEGIN
    FOREACH each IN ARRAY ARRAY[
        'product_sync_schedule', 'listing_state', 'sync_audit_log', 'profiles',
        'connected_accounts', 'product', 'product_staging', 'boeing_raw_data', 'push_intent',
        'sync_jobs', 'orders', 'line_items', 'shipments', 'refunds', 'listings', 'customers',
        'payments', 'unreadable_records', 'oauth_visits', 'notices', 'pauses', 'access_keys',
        'login_links', 'sessions'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', each);
        EXECUTE format(
            'CREATE POLICY seller ON %I TO headway_seller'
            ' USING (user_id = (SELECT current_setting(''headway.seller'', true)))'
            ' WITH CHECK (user_id = (SELECT current_setting(''headway.seller'', true)))', each);
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO headway_seller', current_schema());
END $$;
-- A pause of everything is everybody's business.
CREATE POLICY everybody ON pauses FOR SELECT TO headway_seller USING (user_id IS NULL);

GRANT SELECT ON product_sync_schedule, listing_state, sync_audit_log, profiles, connected_accounts,
    product, product_staging, push_intent, sync_jobs, orders, line_items, shipments, refunds,
    listings, customers, payments, unreadable_records, notices, pauses TO headway_seller;
GRANT UPDATE ON product_sync_schedule, listing_state, sync_jobs TO headway_seller;
GRANT INSERT ON sync_audit_log TO headway_seller;
GRANT INSERT, UPDATE, DELETE ON product_staging, pauses TO headway_seller;
-- What a seller pays for, and the terms, are the operator's to set.
GRANT INSERT (user_id, mass_approved_until, created_at, updated_at),
    UPDATE (mass_approved_until, updated_at) ON profiles TO headway_seller;
