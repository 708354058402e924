-- pre: old processes do not know the table; until they are replaced nothing is recorded.
-- Which steps of the housekeeping fail, so that a person learns of it.
CREATE TABLE housekeeping (
    step text PRIMARY KEY,
    done_at timestamptz,
    failing_since timestamptz,
    failures integer NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    CHECK ((failures > 0) = (failing_since IS NOT NULL))
);
COMMENT ON TABLE housekeeping IS
    'The last round of the tick (step `round`), and every step of it that fails.';
COMMENT ON COLUMN housekeeping.done_at IS 'When the last round was made; only in the row `round`.';
COMMENT ON COLUMN housekeeping.failures IS 'Failures in a row.';
