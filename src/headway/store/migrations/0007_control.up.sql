-- Simulations and plans that somebody asked for over the API, and how far they are.
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
    finished_at timestamptz
);
CREATE INDEX runs_newest ON runs (created_at DESC);
