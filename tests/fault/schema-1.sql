-- SPDX-License-Identifier: MIT
-- schema-1.sql - a file of schema version 1, as a queue of that version left it.
--
-- Jobs in every state, with small and large bodies, leases that ended with the process, and
-- pauses. schema.c opens it with the present version and looks at every job. This file stays as it
-- is for as long as files of version 1 are to be opened; a new version has a script of its own.
-- Times are microseconds since the epoch; what is to come lies in the year 2190.
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
    result BLOB
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
    kicks, touches, ready, reserved, touched, buried, done, last_error, result, data
);
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body)
VALUES(1, 'work', 2, NULL, 1024, 60000000, NULL, 1700000000000001, NULL, 10, 3583581086,
    CAST('plain body' AS BLOB));
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body)
VALUES(2, 'work', 2, NULL, 0, 60000000, NULL, 1700000000000002, NULL, NULL, 2712228340, NULL);
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body)
VALUES(3, 'work', 2, NULL, 5, 60000000, NULL, 1700000000000003, NULL, 512, 1380339806,
    CAST(replace(printf('%.512c', 'x'), ' ', 'x') AS BLOB));
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body)
VALUES(4, 'work', 2, NULL, 4294967295, 60000000, NULL, 1700000000000004, NULL, 513, 1326395598,
    NULL);
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body)
VALUES(5, 'work', 1, NULL, 7, 60000000, 6942672000000000, 1700000000000005, NULL, 5000,
    2039681541, NULL);
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body)
VALUES(6, 'work', 1, 4, 8, 60000000, 6942672000000000, 1700000000000006, NULL, 8, 2322484895,
    CAST('absolute' AS BLOB));
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body, key, max_retries)
VALUES(7, 'keys', 2, 16, 1024, 60000000, NULL, 1700000000000007, NULL, 5, 4209773890,
    CAST('keyed' AS BLOB), CAST('the key' AS BLOB), 0);
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body, bury_order, buries, buried, last_error)
VALUES(9, 'aside', 4, 16, 1024, 60000000, NULL, 1700000000000009, 1700000000000500, 13,
    3206130480, CAST('buried second' AS BLOB), 2, 1, 1700000000000500, 'second');
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body, bury_order, buries, kicks, buried, last_error)
VALUES(8, 'aside', 4, 16, 1024, 60000000, NULL, 1700000000000008, 1700000000000600, 12,
    2964779104, CAST('buried first' AS BLOB), 1, 3, 2, 1700000000000600, 'first');
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body, key, retain, reserves, done, result)
VALUES(11, 'results', 5, 24, 1024, 60000000, 4538240000000000, 1700000000000011, 1700000000000700,
    4, 145916658, CAST('done' AS BLOB), CAST('kept' AS BLOB), 2838240000000000, 1,
    1700000000000700, CAST('the result' AS BLOB));
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body, max_retries, reserves, reserved)
VALUES(12, 'limited', 2, 17, 1024, 60000000, NULL, 1700000000000012, NULL, 7, 858253004,
    CAST('started' AS BLOB), 0, 1, 1700000000000800);
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body, max_retries, failures, fails, timeouts, reserves, last_error, backoff_base, backoff_max)
VALUES(13, 'limited', 1, 16, 1024, 60000000, 6942672000000000, 1700000000000013, 1700000000000900,
    7, 1584159152, CAST('retried' AS BLOB), 5, 2, 1, 1, 2, 'went wrong', 1000000, 60000000);
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body, reserves)
VALUES(14, 'work', 2, 18, 1024, 60000000, NULL, 1700000000000014, NULL, 9, 2416825280,
    CAST('cancelled' AS BLOB), 1);
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body, expires_at)
VALUES(15, 'work', 2, 16, 1024, 60000000, NULL, 1700000000000015, NULL, 8, 841247872,
    CAST('expiring' AS BLOB), 6942672000000000);
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body)
VALUES(16, 'paused', 2, NULL, 1024, 60000000, NULL, 1700000000000016, NULL, 4, 3529804794,
    CAST('last' AS BLOB));
INSERT INTO job(id, topic, state, flags, priority, ttr, due, created, since, body_size, body_sum,
    body, releases, touches)
VALUES(17, 'work', 2, 16, 9, 60000000, NULL, 1700000000000017, NULL, 600, 1250270416, NULL, 4, 2);
INSERT INTO body(id, data)
VALUES(4, CAST(replace(printf('%.513c', 'x'), ' ', 'x') AS BLOB)),
    (5, CAST(replace(printf('%.5000c', 'x'), ' ', 'x') AS BLOB)),
    (17, CAST(replace(printf('%.600c', 'x'), ' ', 'x') AS BLOB));
INSERT INTO pause(topic, until) VALUES('paused', 6942672000000000), ('past', 1700000000000000);
INSERT INTO meta(name, value) VALUES('next_id', 10017), ('next_token', 777000);
PRAGMA application_id=1651074149;
PRAGMA user_version=1;
COMMIT;
PRAGMA journal_mode=WAL;
