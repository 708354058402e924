DELETE FROM access_keys WHERE role = 'permits';
ALTER TABLE access_keys
    DROP CONSTRAINT access_keys_role_check,
    DROP CONSTRAINT access_keys_seller,
    ADD CONSTRAINT access_keys_role_check CHECK (role IN ('operator', 'seller', 'reader')),
    ADD CONSTRAINT access_keys_seller CHECK (CASE role
        WHEN 'seller' THEN user_id IS NOT NULL
        WHEN 'operator' THEN user_id IS NULL
        ELSE true END);
