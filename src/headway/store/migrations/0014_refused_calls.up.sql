-- pre: only an index, which any process may use.
-- Refused calls are looked up at every call: they show that something else uses the credential.
CREATE INDEX call_ledger_refused ON call_ledger (limit_key, begun_at) WHERE http_status = 429;
