DROP TABLE housekeeping;
