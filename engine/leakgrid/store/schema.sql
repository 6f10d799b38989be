-- The tables of reports/leakgrid.duckdb, version 1. Derived from the cache, rebuildable at any time.
-- No primary keys: they halve the insert rate. Views (views.sql) take the newest row per key.
-- (stem, ordinal) name the row of the cache that a row here was made from. Times are UTC.

-- runs: one row for the start, one for the end of each invocation
CREATE TABLE run_start (
    stem VARCHAR, ordinal BIGINT, run VARCHAR, job VARCHAR, job_file VARCHAR, argv VARCHAR[],
    git_commit VARCHAR, git_dirty BOOLEAN, versions JSON, started TIMESTAMP
);
CREATE TABLE run_end (
    stem VARCHAR, ordinal BIGINT, run VARCHAR, job VARCHAR, exit_code INTEGER, ended TIMESTAMP,
    sent BIGINT, answered_from_cache BIGINT, cells_done BIGINT, cells_open BIGINT,
    spend_usd DOUBLE, seconds DOUBLE
);
CREATE TABLE lane_state (
    stem VARCHAR, ordinal BIGINT, run VARCHAR, job VARCHAR, lane VARCHAR, statistics JSON,
    ts TIMESTAMP
);

-- plans: what a job asks for; (stem, ordinal) ties the parts of one plan together
CREATE TABLE plan (
    stem VARCHAR, ordinal BIGINT, run VARCHAR, job VARCHAR, plan_id VARCHAR, benchmark VARCHAR,
    dataset VARCHAR, ts TIMESTAMP
);
CREATE TABLE plan_column (
    stem VARCHAR, ordinal BIGINT, position INTEGER, column_id VARCHAR, model VARCHAR,
    defence VARCHAR, condition VARCHAR, sample INTEGER, simulated BOOLEAN, note VARCHAR,
    judges STRUCT(name VARCHAR, kind VARCHAR, model VARCHAR)[]
);
CREATE TABLE plan_item (
    stem VARCHAR, ordinal BIGINT, position INTEGER, item VARCHAR, digest VARCHAR
);
CREATE TABLE item_attribute (
    stem VARCHAR, ordinal BIGINT, item VARCHAR, attribute VARCHAR, category VARCHAR
);
CREATE TABLE price (
    stem VARCHAR, ordinal BIGINT, model VARCHAR, usd_in DOUBLE, usd_out DOUBLE, usd_cached DOUBLE
);

-- answers: kept ones (response) and attempts that failed (attempt). The verbatim body of a kept
-- answer stays in the cache, where `leakgrid sql` shows it in the view `answers`: a second copy
-- here would double the file and halve the speed
CREATE TABLE response (
    stem VARCHAR, ordinal BIGINT, key VARCHAR, run VARCHAR, job VARCHAR, role VARCHAR,
    lane VARCHAR, provider VARCHAR, family VARCHAR, model VARCHAR, returned VARCHAR,
    sample INTEGER, outcome VARCHAR, status INTEGER, attempt INTEGER, finish VARCHAR,
    error VARCHAR, input BIGINT, cached BIGINT, output BIGINT, reasoning_tokens BIGINT,
    usd DOUBLE, latency_ms DOUBLE, wait_ms DOUBLE, tier VARCHAR, simulated BOOLEAN,
    text VARCHAR USING COMPRESSION zstd, reasoning VARCHAR, ts TIMESTAMP
);
CREATE TABLE attempt (
    stem VARCHAR, ordinal BIGINT, key VARCHAR, run VARCHAR, job VARCHAR, role VARCHAR,
    lane VARCHAR, provider VARCHAR, family VARCHAR, model VARCHAR, sample INTEGER,
    outcome VARCHAR, status INTEGER, attempt INTEGER, error VARCHAR, input BIGINT,
    cached BIGINT, output BIGINT, reasoning_tokens BIGINT, usd DOUBLE, latency_ms DOUBLE,
    wait_ms DOUBLE, tier VARCHAR, simulated BOOLEAN, body VARCHAR, ts TIMESTAMP
);

-- records: what finished cells left behind
CREATE TABLE reply (
    stem VARCHAR, ordinal BIGINT, column_id VARCHAR, item VARCHAR, digest VARCHAR, run VARCHAR,
    benchmark VARCHAR, model VARCHAR, defence VARCHAR, condition VARCHAR, sample INTEGER,
    settled BOOLEAN, simulated BOOLEAN, reply VARCHAR USING COMPRESSION zstd, outcome VARCHAR, reasoning VARCHAR,
    extra JSON, ts TIMESTAMP
);
CREATE TABLE verdict (
    stem VARCHAR, ordinal BIGINT, position INTEGER, column_id VARCHAR, item VARCHAR,
    digest VARCHAR, judge VARCHAR, attribute VARCHAR, category VARCHAR, leaked BOOLEAN,
    why VARCHAR, evidence VARCHAR, parser VARCHAR, key VARCHAR
);
CREATE TABLE call (
    stem VARCHAR, ordinal BIGINT, position INTEGER, column_id VARCHAR, item VARCHAR,
    digest VARCHAR, role VARCHAR, key VARCHAR
);

-- how many leading rows of each journal are in the tables above
CREATE TABLE ingested (stream VARCHAR, stem VARCHAR, rows BIGINT);
