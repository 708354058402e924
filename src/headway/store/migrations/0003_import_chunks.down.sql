-- Uploads in progress are lost; their clients send them again.
DROP TABLE import_chunks;
