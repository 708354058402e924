-- pre: old processes do not know the table.
-- Files that a client sends to be imported, in chunks below the API's limit on a body.
CREATE TABLE import_chunks (
    upload text NOT NULL,
    number integer NOT NULL CHECK (number >= 0),
    content bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (upload, number)
);
COMMENT ON TABLE import_chunks IS
    'Parts of files that are being sent for an import; deleted after the import, or after a day.';
COMMENT ON COLUMN import_chunks.upload IS 'SHA-256 of the whole file, in hexadecimal.';
