"""Days of the account lane: sellers and their shops, the real engine, simulated platforms, laws."""
