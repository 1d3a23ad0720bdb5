-- SPDX-License-Identifier: MIT
-- schema-3.sql - a file of schema version 3.
--
-- It has the histories of jobs: of none, one and three failures. This file stays as it is for as long as
-- files of version 3 are to be opened.
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
INSERT INTO job(id, topic, state, flags, priority, ttr, created, since, body_size, body_sum, body,
    max_retries, failures, reserves, timeouts, reserved, last_error, history)
VALUES(12, 'limited', 2, 16, 1024, 60000000, 1700000000000012, 1700000000000200, 7, 858253004,
    CAST('started' AS BLOB), 5, 1, 1, 1, 1700000000000200,
    'the queue was restarted while the job was reserved',
    x'049069e5cf8b010001000000000032007468652071756575652077617320726573746172746564207768696c6520746865206a6f6220776173207265736572766564');
INSERT INTO job(id, topic, state, flags, priority, ttr, created, since, body_size, body_sum, body,
    bury_order, reserves, timeouts, fails, buries, reserved, buried, last_error, history)
VALUES(14, 'work', 4, 16, 1024, 60000000, 1700000000000014, 1700000000300000, 9, 2416825280,
    CAST('cancelled' AS BLOB), 700001, 3, 1, 1, 1, 1700000000000100, 1700000000300000, 'broke',
    x'006468e5cf8b0100010000000000050062726f6b6502c868e5cf8b01000200000000000b007474722072616e206f7574012c69e5cf8b01000300000008000000776f726b65722d37');
INSERT INTO meta(name, value) VALUES('next_id', 20), ('next_token', 777000);
PRAGMA application_id=1651074149;
PRAGMA user_version=3;
COMMIT;
PRAGMA journal_mode=WAL;
