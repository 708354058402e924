ALTER TABLE sync_audit_log DROP COLUMN actor;
