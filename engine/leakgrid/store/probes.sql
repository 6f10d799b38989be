-- records: what the assistant's model answered when asked who knows what
CREATE TABLE probe (
    stem VARCHAR, ordinal BIGINT, position INTEGER, column_id VARCHAR, item VARCHAR,
    digest VARCHAR, kind VARCHAR, target VARCHAR, truth BOOLEAN, said BOOLEAN, why VARCHAR,
    key VARCHAR
);
