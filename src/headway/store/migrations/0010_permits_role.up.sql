-- pre: old processes cannot read a key with the new role, so make one only when all are replaced.
-- Keys of other programs that take permits for their own calls.
ALTER TABLE access_keys
    DROP CONSTRAINT access_keys_role_check,
    DROP CONSTRAINT access_keys_seller,
    ADD CONSTRAINT access_keys_role_check CHECK (role IN ('operator', 'seller', 'reader', 'permits')),
    ADD CONSTRAINT access_keys_seller CHECK (CASE role
        WHEN 'seller' THEN user_id IS NOT NULL
        WHEN 'operator' THEN user_id IS NULL
        WHEN 'permits' THEN user_id IS NULL
        ELSE true END);
