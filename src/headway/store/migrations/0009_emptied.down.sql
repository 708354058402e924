ALTER TABLE listing_state DROP COLUMN emptied_at;
COMMENT ON COLUMN listing_state.moved_at IS
    'Last change of the price, or of the stock to zero; the guard against mass changes counts these.';
