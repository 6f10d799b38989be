-- Version 2 of the schema: what judges of usefulness said of the replies in records.
CREATE TABLE rating (
    stem VARCHAR, ordinal BIGINT, position INTEGER, column_id VARCHAR, item VARCHAR,
    digest VARCHAR, judge VARCHAR, useful BOOLEAN, why VARCHAR, evidence VARCHAR,
    parser VARCHAR, key VARCHAR
);
