ALTER TABLE profiles DROP COLUMN currency, DROP COLUMN locations, DROP COLUMN markups;
