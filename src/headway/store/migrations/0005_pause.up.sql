-- What a person has stopped. One pause for each thing; whoever pauses it again replaces the first.
CREATE TABLE pauses (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    kind text NOT NULL CHECK (kind IN ('all', 'supplier', 'seller', 'listing')),
    user_id text,
    sku text,
    until timestamptz,
    reason text NOT NULL DEFAULT '',
    actor text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pauses_thing_unique UNIQUE NULLS NOT DISTINCT (kind, user_id, sku),
    CONSTRAINT pauses_thing CHECK (
        (user_id IS NOT NULL) = (kind IN ('seller', 'listing'))
        AND (sku IS NOT NULL) = (kind = 'listing')
    )
);
