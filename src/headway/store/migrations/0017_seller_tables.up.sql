-- pre: old processes use the deployment's values for all sellers until they are replaced.
-- A seller may sell in another currency, from other locations, and mark groups of parts up differently.
ALTER TABLE profiles
    ADD COLUMN currency text CHECK (currency ~ '^[A-Z]{3}$'),
    ADD COLUMN locations text,
    ADD COLUMN markups text;
COMMENT ON COLUMN profiles.currency IS 'Currency the seller''s shop sells in.';
COMMENT ON COLUMN profiles.locations IS 'The seller''s own map of locations: supplier location=shop location, separated by commas.';
COMMENT ON COLUMN profiles.markups IS 'Markups of groups of parts: pattern=share, separated by commas; the first that matches holds.';
