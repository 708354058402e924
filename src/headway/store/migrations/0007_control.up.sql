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
