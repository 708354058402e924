-- pre: older code does not know this table.
-- Who has a message under way. A baton is the right to have one message on the broker, or one worker
-- at it, for one subject: the supplier, a shop, a place among the pulls of a platform. `until` is when
-- whoever has it counts as silent, or when it is to be looked at again. A worker that takes it up
-- gives it a new fence, so that of any number of messages one is heard. `carried` is what the last
-- worker had in hand when it ended its turn: a permit that it waits for, a job half read.
CREATE TABLE dispatch_leases (
    verb text NOT NULL CHECK (verb IN ('tick', 'fetch', 'push', 'pull')),
    subject text NOT NULL,
    fence bigint NOT NULL DEFAULT 1,
    until timestamptz NOT NULL,
    carried jsonb,
    PRIMARY KEY (verb, subject)
) WITH (fillfactor = 50);
-- Few carry anything; they are woken when their time comes, whatever else is due.
CREATE INDEX batons_carried ON dispatch_leases (until) WHERE carried IS NOT NULL;
