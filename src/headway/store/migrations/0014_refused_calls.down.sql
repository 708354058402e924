DROP INDEX call_ledger_refused;
