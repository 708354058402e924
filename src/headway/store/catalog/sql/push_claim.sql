-- Lease a shop for one worker, under a new fence.
-- Guarantees: one worker writes to a shop at a time (law L5); a lease counts as free only once it
-- has expired by more than the clocks of two hosts may differ; nothing while paused,
-- disconnected, refused or suspended.
-- index: connected_accounts_pkey
WITH taken AS (
  UPDATE connected_accounts AS account SET push_fence = push_fence + 1, push_owner = %(owner)s,
    push_lease_until = %(lease_until)s, push_called_at = %(now)s, updated_at = %(now)s
  WHERE id = %(id)s AND account.platform = %(storefront)s AND account.status = 'connected'
    AND (account.push_lease_until IS NULL OR account.push_lease_until < %(expired_before)s)
    AND (account.wait_until IS NULL OR account.wait_until <= %(now)s)
    AND NOT EXISTS (SELECT FROM pauses AS pause
      WHERE pause.kind = 'all' AND (pause.until IS NULL OR pause.until > %(now)s))
    AND NOT EXISTS (SELECT FROM pauses AS pause
      WHERE pause.kind = 'seller' AND pause.user_id = account.user_id
        AND (pause.until IS NULL OR pause.until > %(now)s))
  RETURNING *
)
SELECT account.id::text, account.user_id, account.shop,
  CASE WHEN account.locations_at > %(read_after)s THEN account.locations END,
  CASE WHEN account.channels_at > %(read_after)s THEN account.channels END,
  account.missing_scopes, coalesce(profile.guard_move, %(guard_move)s),
  coalesce(profile.oversell, %(oversell)s) = 'deny', account.push_started_at IS NULL, profile.currency,
  account.push_fence,
  account.drift_check_at
FROM taken AS account LEFT JOIN profiles AS profile USING (user_id)
