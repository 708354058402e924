-- Refuses while a supplier of another kind is in use: it would be called as one of the settings' kind.
DO $$
BEGIN
    IF EXISTS (SELECT FROM suppliers WHERE kind <> '' AND removed_at IS NULL) THEN
        RAISE EXCEPTION 'there are suppliers of other kinds; remove them first: headway supplier remove NAME'
            USING ERRCODE = 'HW001';
    END IF;
END
$$;
DELETE FROM suppliers WHERE kind <> '';
ALTER TABLE suppliers
    DROP COLUMN kind,
    DROP COLUMN options,
    ADD CONSTRAINT suppliers_username_check CHECK (username <> '');
