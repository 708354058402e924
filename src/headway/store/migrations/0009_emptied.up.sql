-- pre: old processes do not know the column; until they are replaced parts that run out are not counted.
-- Parts that run out of stock are counted apart from new prices, so that a price list holds no stock back.
ALTER TABLE listing_state ADD COLUMN emptied_at timestamptz;
CREATE INDEX listing_state_emptied ON listing_state (user_id, emptied_at) WHERE emptied_at IS NOT NULL;
COMMENT ON COLUMN listing_state.moved_at IS
    'Last change of the price; the guard against mass changes counts these.';
COMMENT ON COLUMN listing_state.emptied_at IS
    'When the part last ran out of stock; the guard against mass changes counts these.';
