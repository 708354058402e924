-- Who did it: a key's name, a session's, or the command line's, told by the transaction.
ALTER TABLE sync_audit_log
    ADD COLUMN actor text DEFAULT nullif(current_setting('headway.actor', true), '');
