"""Connected accounts, their jobs, credentials and records."""
