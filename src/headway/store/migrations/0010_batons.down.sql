DROP TABLE dispatch_leases;
