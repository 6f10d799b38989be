-- Version 6 of the schema: what a benchmark says of its items and attributes, how sure a judge was,
-- prices by tier, and the books of batches.
-- Left out on purpose: a parent of each call (it holds what it follows from, so its key chains to
-- it, and `position` is the order asked) and a prefix (replicas take it from the body; it decides
-- where a call goes and nothing that comes back).

-- the judge's own confidence, where its answer has one; NULL where it has none or was not kept yet
ALTER TABLE verdict ADD COLUMN score DOUBLE;
-- equal where the texts of two attributes are (blake2b-64, hex): a text itself is never here
ALTER TABLE item_attribute ADD COLUMN value_hash VARCHAR;
-- a plan has one row for each tier that has a price; source is empty for the job's own price.
-- Plans of an older leakgrid told online prices only
ALTER TABLE price ADD COLUMN tier VARCHAR DEFAULT 'online';
ALTER TABLE price ADD COLUMN valid_from DATE;
ALTER TABLE price ADD COLUMN source VARCHAR;

-- plans: what a benchmark says of each item that is no secret, and what items may share
CREATE TABLE item_payload (
    stem VARCHAR, ordinal BIGINT, item VARCHAR, context_id VARCHAR, payload JSON
);

-- books of batches (batches/book.py): one row an event; the view `batch` has one row a batch
CREATE TABLE batch_event (
    stem VARCHAR, ordinal BIGINT, event VARCHAR, id VARCHAR, run VARCHAR, job VARCHAR, lane VARCHAR,
    provider VARCHAR, family VARCHAR, model VARCHAR, simulated BOOLEAN, batch VARCHAR,
    file VARCHAR, calls BIGINT, answered BIGINT, failed BIGINT, usd DOUBLE, state VARCHAR,
    why VARCHAR, ts TIMESTAMP
);
