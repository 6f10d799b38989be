-- Version 4 of the schema: dialogues, what was said and disclosed in them, and labels.
ALTER TABLE reply ADD COLUMN receiver VARCHAR;
ALTER TABLE reply ADD COLUMN turns INTEGER;
ALTER TABLE plan_column ADD COLUMN receiver VARCHAR;
ALTER TABLE plan_column ADD COLUMN turns INTEGER;

-- records: what each side said in each round, and how that call ended
CREATE TABLE utterance (
    stem VARCHAR, ordinal BIGINT, position INTEGER, column_id VARCHAR, item VARCHAR,
    digest VARCHAR, turn INTEGER, speaker VARCHAR, text VARCHAR USING COMPRESSION zstd,
    outcome VARCHAR, reasoning VARCHAR, key VARCHAR
);
-- records: that a judge went through what a speaker said (turn 0: the whole dialogue)
CREATE TABLE hearing (
    stem VARCHAR, ordinal BIGINT, position INTEGER, column_id VARCHAR, item VARCHAR,
    digest VARCHAR, judge VARCHAR, speaker VARCHAR, turn INTEGER, asked INTEGER,
    unknown INTEGER, whole BOOLEAN, parser VARCHAR, why VARCHAR
);
-- records: attributes that were disclosed, or of which that is not known (degree NULL)
CREATE TABLE reveal (
    stem VARCHAR, ordinal BIGINT, position INTEGER, column_id VARCHAR, item VARCHAR,
    digest VARCHAR, judge VARCHAR, speaker VARCHAR, turn INTEGER, attribute VARCHAR,
    degree VARCHAR, evidence VARCHAR, why VARCHAR, key VARCHAR
);
-- records: attributes that one sample of a labelling persona listed
CREATE TABLE vote (
    stem VARCHAR, ordinal BIGINT, position INTEGER, column_id VARCHAR, item VARCHAR,
    digest VARCHAR, attribute VARCHAR, said VARCHAR
);

-- plans: who remembers what, who is written to about what, which item is which instance
CREATE TABLE profile_attribute (
    stem VARCHAR, ordinal BIGINT, profile VARCHAR, attribute VARCHAR, domain VARCHAR,
    event VARCHAR, basic BOOLEAN, statement VARCHAR
);
CREATE TABLE context (
    stem VARCHAR, ordinal BIGINT, profile VARCHAR, context VARCHAR, recipient VARCHAR,
    task VARCHAR
);
CREATE TABLE instance (
    stem VARCHAR, ordinal BIGINT, item VARCHAR, sender VARCHAR, receiver VARCHAR,
    context VARCHAR
);
-- plans: shares out of a label file, and how a job makes labels of shares
CREATE TABLE label_given (
    stem VARCHAR, ordinal BIGINT, profile VARCHAR, context VARCHAR, attribute VARCHAR,
    persona VARCHAR, necessary DOUBLE, inappropriate DOUBLE
);
CREATE TABLE label_rule (
    stem VARCHAR, ordinal BIGINT, label_job VARCHAR, weights MAP(VARCHAR, DOUBLE),
    threshold DOUBLE, basics VARCHAR
);
