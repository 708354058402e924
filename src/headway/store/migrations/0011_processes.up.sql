-- pre: older code does not know this table.
-- Who runs on this database, as each says of itself every half minute; the server's clock says when.
-- `settings` holds digests of what must be the same everywhere, by name.
CREATE TABLE processes (
    id uuid PRIMARY KEY,
    verb text NOT NULL CHECK (verb IN ('run', 'worker', 'api')),
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    migrations_known integer NOT NULL,
    settings jsonb NOT NULL,
    clock_ahead_ms double precision NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
