-- One row about a seller in every table; statements end with a semicolon at the end of a line.
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)
SELECT %(seller)s::text, 'P' || n, n %% 24, %(now)s FROM generate_series(1, 3) AS n;
INSERT INTO listing_state (user_id, sku, observed, desired, applied)
SELECT %(seller)s::text, 'P' || n, '{"by": 1}', '{"of": 2}', '{"of": 1}' FROM generate_series(1, 3) AS n
ON CONFLICT (user_id, sku) DO UPDATE SET applied = excluded.applied;
INSERT INTO product (user_id, sku, shop_sku, title) VALUES (%(seller)s::text, 'P1', 'S1', %(seller)s::text);
INSERT INTO product_staging (user_id, sku, shop_sku, batch_id, title)
VALUES (%(seller)s::text, 'P1', 'S1', gen_random_uuid(), %(seller)s::text);
INSERT INTO boeing_raw_data (user_id, sku, raw_payload) VALUES (%(seller)s::text, 'P1', '{}');
INSERT INTO push_intent (id, account_id, user_id, kind, fence, skus, writes, created_at)
VALUES (gen_random_uuid(), %(account)s, %(seller)s::text, 'price', 1, '{P1}', '{}', %(now)s);
INSERT INTO access_keys (id, name, prefix, hash, role, user_id, created_at)
VALUES (gen_random_uuid(), %(seller)s::text || ' app', 'hw', sha256(convert_to(%(seller)s::text, 'UTF8')), 'seller',
  %(seller)s::text, %(now)s);
INSERT INTO login_links (hash, name, role, user_id, created_at, expires_at)
VALUES (sha256(convert_to(%(seller)s::text, 'UTF8')), %(seller)s::text, 'seller', %(seller)s::text, %(now)s, %(now)s);
INSERT INTO sessions (id, hash, name, role, user_id, created_at, expires_at, last_seen_at)
VALUES (gen_random_uuid(), sha256(convert_to(%(seller)s::text, 'UTF8')), %(seller)s::text, 'seller', %(seller)s::text, %(now)s,
  %(now)s, %(now)s);
INSERT INTO idempotency (principal, key, fingerprint, owner, lease_until, body, created_at, state,
  status, content_type)
SELECT 'key:' || id, 'k', sha256(hash), gen_random_uuid(), %(now)s, 'reply', %(now)s, 'done', 200,
  'application/json'
FROM access_keys WHERE user_id = %(seller)s::text;
INSERT INTO idempotency (principal, key, fingerprint, owner, lease_until, body, created_at, state,
  status, content_type)
VALUES ('key:operations', %(shop)s::text, sha256('1'), gen_random_uuid(), %(now)s,
  convert_to('{"shop": "' || %(shop)s::text || '"}', 'UTF8'), %(now)s, 'done',
  200, 'application/json');
INSERT INTO import_chunks (upload, number, content, created_at)
VALUES (gen_random_uuid()::text, 1, convert_to('sku,seller' || chr(10) || 'P1,' || %(seller)s::text, 'UTF8'), %(now)s);
INSERT INTO oauth_flows (state, platform, user_id, shop, verifier, expires_at)
VALUES (%(shop)s::text, 'shopify', %(seller)s::text, %(shop)s::text, 'v', %(now)s);
INSERT INTO pauses (kind, user_id, reason) VALUES ('seller', %(seller)s::text, 'asked');
INSERT INTO pauses (kind, sku, user_id, reason, actor)
VALUES ('listing', md5(%(shop)s::text), 'someone', 'as ' || %(seller)s::text || ' said', %(seller)s::text || ' app');
WITH notice AS (
  INSERT INTO notices (user_id, topic, subject, text, created_at)
  VALUES (%(seller)s::text, 'job_dead', %(shop)s::text, 'a job of ' || %(shop)s::text || ' is dead', %(now)s)
  RETURNING id)
INSERT INTO outbox (key, severity, title, body, notice_id, created_at, due_at)
SELECT %(seller)s::text, 'notice', 'for ' || %(seller)s::text, %(shop)s::text, id, %(now)s, %(now)s FROM notice;
INSERT INTO outbox (key, severity, title, body, created_at, due_at)
VALUES ('alert ' || %(shop)s::text, 'critical', 'an alert', %(seller)s::text || ' and someone wait',
  %(now)s, %(now)s);
INSERT INTO alert_states (name, subject, severity, sentence, link, seller, count, since)
VALUES ('disconnected', %(seller)s::text || ' ' || %(shop)s::text, 'critical', %(shop)s::text, '/', %(seller)s::text,
  1, %(now)s);
INSERT INTO alert_states (name, subject, severity, sentence, link, count, since)
VALUES ('dead_jobs', md5(%(shop)s::text), 'warning', 'dead: ' || %(seller)s::text || '/etsy/orders', '/',
  1, %(now)s);
INSERT INTO runs (id, kind, request, status, actor, created_at)
VALUES (gen_random_uuid(), 'plan', jsonb_build_object('note', %(seller)s::text), 'queued',
  %(seller)s::text || ' app', %(now)s);
INSERT INTO breaker (limit_key, reason) VALUES ('shopify:app:' || %(shop)s::text, %(shop)s::text || ' is down'),
  ('other:' || %(account)s::text, 'beside ' || %(shop)s::text);
INSERT INTO credential (credential_key, name, secret, expires_at)
VALUES ('shopify:app:' || %(shop)s::text, 'access', convert_to('secret of ' || %(seller)s::text, 'UTF8'), %(now)s);
INSERT INTO credential_refresh (credential_key, owner, lease_until)
VALUES ('shopify:app:' || %(shop)s::text, 'w', %(now)s);
INSERT INTO limiter (limit_key, rules, state, lineage, updated_at)
VALUES ('shopify:app:' || %(shop)s::text, '[]', '{}', '', %(now)s);
INSERT INTO rate_budgets (limit_key, platform, hour, tier, used, is_backfill)
VALUES ('shopify:app:' || %(shop)s::text, 'shopify', date_trunc('hour', %(now)s::timestamptz), 'free', 1, false);
INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until, result)
VALUES (gen_random_uuid(), 'shopify:app:' || %(shop)s::text, 'w', 1, %(now)s, %(now)s, 'orders'),
  (gen_random_uuid(), 'etsy:app', 'w', 1, %(now)s, %(now)s, 'no shop ' || %(shop)s::text);
INSERT INTO dispatch_leases (verb, subject, until, carried)
VALUES ('pull', %(shop)s::text, %(now)s, jsonb_build_object('account', %(account)s::text, 'of', %(seller)s::text));
INSERT INTO webhook_deliveries (platform, delivery_id, account_id, topic, kind, external_id,
  received_at) VALUES ('shopify', gen_random_uuid()::text, %(account)s, 'customers/update',
  'customers', %(customer)s::text, %(now)s);
INSERT INTO privacy_requests (account_id, user_id, platform, customer_id, requested_at, due_at)
VALUES (%(account)s, %(seller)s::text, 'shopify', %(customer)s::text, %(now)s, %(now)s);
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, new_value)
VALUES (%(seller)s::text, %(now)s, 'job_woken', jsonb_build_object('external_id', %(customer)s::text)),
  ('', %(now)s, 'alert_fired', jsonb_build_object('sentence', 'no token for ' || %(shop)s::text)),
  ('', %(now)s, 'key_created', jsonb_build_object('name', %(seller)s::text || ' app'));
INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type, actor)
VALUES ('someone', %(now)s, 'sync_paused', 'operations'),
  ('', %(now)s, 'sync_paused', %(seller)s::text || ' app');
