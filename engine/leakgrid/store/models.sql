-- Version 5 of the schema: what a job says of its models, for tables by family and size.
CREATE TABLE plan_model (
    stem VARCHAR, ordinal BIGINT, model VARCHAR, family VARCHAR, size_b DOUBLE
);
