DROP TABLE pauses;
