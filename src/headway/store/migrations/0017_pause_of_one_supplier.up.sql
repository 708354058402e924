-- pre: older code names none, and takes the pause of one supplier for a pause of all.
-- A pause of the supplier may be of one of them; without a name it is of all.
ALTER TABLE pauses ADD COLUMN supplier text;
ALTER TABLE pauses DROP CONSTRAINT pauses_thing_unique;
ALTER TABLE pauses ADD CONSTRAINT pauses_thing_unique
    UNIQUE NULLS NOT DISTINCT (kind, user_id, sku, supplier);
ALTER TABLE pauses ADD CONSTRAINT pauses_supplier CHECK (supplier IS NULL OR kind = 'supplier');

-- That of one supplier is the business of those who buy there.
DROP POLICY everybody ON pauses;
CREATE POLICY everybody ON pauses FOR SELECT TO headway_seller USING (
    user_id IS NULL AND (supplier IS NULL OR supplier = coalesce((
        SELECT profiles.supplier FROM profiles
        WHERE profiles.user_id = current_setting('headway.seller', true)), 'main'))
);
