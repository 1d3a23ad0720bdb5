-- SPDX-License-Identifier: MIT
-- schema-4.sql - a file of schema version 4.
--
-- It has policies of topics: all settings, one, an invalid one, and one of no topic. This file stays
-- as it is for as long as files of version 4 are to be opened.
PRAGMA auto_vacuum=INCREMENTAL;
BEGIN;
CREATE TABLE job(
    id INTEGER PRIMARY KEY, topic TEXT NOT NULL, state INTEGER NOT NULL, flags INTEGER,
    priority INTEGER, ttr INTEGER, due INTEGER, created INTEGER, since INTEGER,
    body_size INTEGER, body_sum INTEGER, body BLOB, key BLOB, max_retries INTEGER,
    failures INTEGER, backoff_base INTEGER, backoff_max INTEGER, expires_at INTEGER,
    retain INTEGER, bury_order INTEGER, reserves INTEGER, timeouts INTEGER, releases INTEGER,
    fails INTEGER, buries INTEGER, kicks INTEGER, touches INTEGER, ready INTEGER,
    reserved INTEGER, touched INTEGER, buried INTEGER, done INTEGER, last_error TEXT,
    result BLOB, token INTEGER, lease INTEGER, history BLOB
);
CREATE TABLE body(
    id INTEGER PRIMARY KEY, data BLOB
);
CREATE TABLE pause(
    topic TEXT PRIMARY KEY, until INTEGER
) WITHOUT ROWID;
CREATE TABLE policy(
    topic TEXT PRIMARY KEY, ttr_ms INTEGER, max_retries INTEGER, backoff_base_ms INTEGER,
    backoff_max_ms INTEGER, retain_ms INTEGER, expires_in_ms INTEGER, max_jobs INTEGER,
    concurrency INTEGER, rate INTEGER, rate_period_ms INTEGER, rate_burst INTEGER
) WITHOUT ROWID;
CREATE TABLE meta(
    name TEXT PRIMARY KEY, value INTEGER
) WITHOUT ROWID;
CREATE TABLE damaged(
    id INTEGER PRIMARY KEY, found INTEGER, reason TEXT, topic, state, flags, priority, ttr, due,
    created, since, body_size, body_sum, body, key, max_retries, failures, backoff_base,
    backoff_max, expires_at, retain, bury_order, reserves, timeouts, releases, fails, buries,
    kicks, touches, ready, reserved, touched, buried, done, last_error, result, data, token,
    lease, history
);
INSERT INTO job(id, topic, state, flags, priority, ttr, created, body_size, body_sum, body, reserves)
VALUES(1, 'work', 2, 16, 1024, 60000000, 1700000000000001, 10, 3583581086,
    CAST('plain body' AS BLOB), 1);
INSERT INTO policy
VALUES('work', 1000, 3, 11, 22, 33, 44, 55, 66, 77, 88, 99),
      ('none', NULL, -3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
      ('invalid', NULL, NULL, NULL, NULL, NULL, NULL, NULL, -7, NULL, NULL, NULL),
      ('-', 5000, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO meta(name, value) VALUES('next_id', 20), ('next_token', 777000);
PRAGMA application_id=1651074149;
PRAGMA user_version=4;
COMMIT;
PRAGMA journal_mode=WAL;
