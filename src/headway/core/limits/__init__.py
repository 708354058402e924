"""Rate limits: rules, state, queue and transitions; quotas and daily shares."""
