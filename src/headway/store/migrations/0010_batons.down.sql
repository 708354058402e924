DROP TABLE batons;
