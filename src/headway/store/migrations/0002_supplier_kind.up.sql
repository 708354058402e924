-- pre: old processes ignore both columns and never see a supplier of another kind.
-- Suppliers of other providers than the one in the settings, and what an operator chose for each.
ALTER TABLE suppliers
    ADD COLUMN kind text NOT NULL DEFAULT '',
    ADD COLUMN options jsonb NOT NULL DEFAULT '{}',
    DROP CONSTRAINT suppliers_username_check;
COMMENT ON COLUMN suppliers.kind IS
    'Provider that serves this supplier; empty means the provider of the supplier in the settings.';
COMMENT ON COLUMN suppliers.options IS
    'What the operator chose for this supplier; the provider checks and reads it. Never a secret.';
