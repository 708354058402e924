-- Whoever stopped one supplier would find all of them stopped, or that one going on.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pauses WHERE supplier IS NOT NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'HW001', MESSAGE =
            'a single supplier is paused, which older code does not know; resume it first:'
            ' headway resume --supplier NAME';
    END IF;
END $$;
DROP POLICY everybody ON pauses;
CREATE POLICY everybody ON pauses FOR SELECT TO headway_seller USING (user_id IS NULL);
ALTER TABLE pauses DROP CONSTRAINT pauses_supplier;
ALTER TABLE pauses DROP CONSTRAINT pauses_thing_unique;
ALTER TABLE pauses DROP COLUMN supplier;
ALTER TABLE pauses ADD CONSTRAINT pauses_thing_unique UNIQUE NULLS NOT DISTINCT (kind, user_id, sku);
