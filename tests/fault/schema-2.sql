-- SPDX-License-Identifier: MIT
-- schema-2.sql - a file of schema version 2, as a server of that version left it at an orderly stop.
--
-- It has leases that outlive the process: of a job without and with a retry limit, of one whose cancel
-- was wanted; and one of before a crash (its token is below lease_from), which is over. This file
-- stays as it is for as long as files of version 2 are to be opened.
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
    result BLOB, token INTEGER, lease INTEGER
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
    lease
);
INSERT INTO job(id, topic, state, flags, priority, ttr, created, since, body_size, body_sum, body,
    reserves, touches, ready, reserved, token, lease)
VALUES(1, 'work', 2, 16, 1024, 60000000, 1700000000000001, 1700000000000300, 10, 3583581086,
    CAST('plain body' AS BLOB), 1, 2, 1700000000000001, 1700000000000300, 700005, 3600000000);
INSERT INTO job(id, topic, state, flags, priority, ttr, created, body_size, body_sum, body, reserves,
    token, lease)
VALUES(2, 'work', 2, 16, 1024, 60000000, 1700000000000002, NULL, 2712228340, NULL, 1, 600001,
    3600000000);
INSERT INTO job(id, topic, state, flags, priority, ttr, created, since, body_size, body_sum, body,
    max_retries, reserves, reserved, token, lease)
VALUES(12, 'limited', 2, 17, 1024, 60000000, 1700000000000012, 1700000000000200, 7, 858253004,
    CAST('started' AS BLOB), 0, 1, 1700000000000200, 700003, 1800000000);
INSERT INTO job(id, topic, state, flags, priority, ttr, created, since, body_size, body_sum, body,
    reserves, reserved, token, lease)
VALUES(14, 'work', 2, 18, 1024, 60000000, 1700000000000014, 1700000000000100, 9, 2416825280,
    CAST('cancelled' AS BLOB), 1, 1700000000000100, 700001, 1800000000);
INSERT INTO meta(name, value) VALUES('next_id', 20), ('next_token', 777000), ('lease_from', 700000);
PRAGMA application_id=1651074149;
PRAGMA user_version=2;
COMMIT;
PRAGMA journal_mode=WAL;
