-- pre: old processes do not know the columns; until they are replaced calls are not narrowed down.
-- Which listings were in calls to a shop that failed as a whole, and when each shop was last called.
ALTER TABLE listing_state ADD COLUMN push_suspicion jsonb;
ALTER TABLE connected_accounts ADD COLUMN push_called_at timestamptz;
COMMENT ON COLUMN listing_state.push_suspicion IS
    'For each kind of call that failed as a whole with this listing: how many listings such a call may hold; 0 or less if it has failed alone.';
COMMENT ON COLUMN connected_accounts.push_called_at IS
    'When a worker last began to call the shop; the one called longest ago is next.';
