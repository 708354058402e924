-- pre: older code leaves it at 0, and gives a rescued job a later place as it always did.
-- How often in a row a worker fell silent with the job in hand, before a page of it was read.
ALTER TABLE sync_jobs ADD COLUMN silences smallint NOT NULL DEFAULT 0;
