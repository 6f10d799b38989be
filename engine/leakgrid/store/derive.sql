-- How scanned rows become table rows: one SELECT a table, under a line "--> table < stream".
-- ingest.py runs them on Arrow batches registered as `answers`, `records` and `runs`;
-- live.py makes views of them. said() is the Python function that reads a verbatim body. The long
-- lists of a plan come as relations of their own, plan_*: as JSON in SQL they take too much memory.

--> response < answers
SELECT * EXCLUDE (kind, ts, body, s), s.text AS text, s.reasoning AS reasoning,
       make_timestamp((ts * 1e6)::BIGINT) AS ts
FROM (SELECT *, said(coalesce(family, ''), coalesce(body, '')) AS s FROM answers
      WHERE kind = 'answer')

--> attempt < answers
SELECT * EXCLUDE (kind, ts, returned, finish), make_timestamp((ts * 1e6)::BIGINT) AS ts
FROM answers WHERE kind = 'attempt'

--> reply < records
SELECT stem, ordinal, column_id, item, digest, run, benchmark, model, defence, condition, sample,
       receiver, turns, settled, simulated, reply, reply_outcome AS outcome, reasoning,
       TRY_CAST(extra AS JSON) AS extra, make_timestamp((ts * 1e6)::BIGINT) AS ts
FROM records

--> verdict < records
SELECT stem, ordinal, column_id, item, digest, v.position, unnest(v.said)
FROM (SELECT stem, ordinal, column_id, item, digest,
             unnest(list_transform(verdicts, lambda x, i: {'position': i, 'said': x})) AS v
      FROM records)

--> rating < records
SELECT stem, ordinal, column_id, item, digest, r.position, unnest(r.said)
FROM (SELECT stem, ordinal, column_id, item, digest,
             unnest(list_transform(ratings, lambda x, i: {'position': i, 'said': x})) AS r
      FROM records)

--> probe < records
SELECT stem, ordinal, column_id, item, digest, p.position, unnest(p.said)
FROM (SELECT stem, ordinal, column_id, item, digest,
             unnest(list_transform(probes, lambda x, i: {'position': i, 'said': x})) AS p
      FROM records)

--> utterance < records
SELECT stem, ordinal, column_id, item, digest, u.position, unnest(u.said)
FROM (SELECT stem, ordinal, column_id, item, digest,
             unnest(list_transform(utterances, lambda x, i: {'position': i, 'said': x})) AS u
      FROM records)

--> hearing < records
SELECT stem, ordinal, column_id, item, digest, h.position, unnest(h.said)
FROM (SELECT stem, ordinal, column_id, item, digest,
             unnest(list_transform(hearings, lambda x, i: {'position': i, 'said': x})) AS h
      FROM records)

--> reveal < records
SELECT stem, ordinal, column_id, item, digest, r.position, unnest(r.said)
FROM (SELECT stem, ordinal, column_id, item, digest,
             unnest(list_transform(reveals, lambda x, i: {'position': i, 'said': x})) AS r
      FROM records)

--> vote < records
SELECT stem, ordinal, column_id, item, digest, v.position, unnest(v.said)
FROM (SELECT stem, ordinal, column_id, item, digest,
             unnest(list_transform(votes, lambda x, i: {'position': i, 'said': x})) AS v
      FROM records)

--> call < records
SELECT stem, ordinal, column_id, item, digest, c.position, unnest(c.made)
FROM (SELECT stem, ordinal, column_id, item, digest,
             unnest(list_transform(calls, lambda x, i: {'position': i, 'made': x})) AS c
      FROM records)

--> run_start < runs
SELECT stem, ordinal, run, job, p.job_file, p.argv, p.git.commit AS git_commit,
       p.git.dirty AS git_dirty, p.versions,
       coalesce(TRY_CAST(p.started AS TIMESTAMPTZ) AT TIME ZONE 'UTC',
                make_timestamp((ts * 1e6)::BIGINT)) AS started
FROM (SELECT *, from_json(payload, '{"job_file": "VARCHAR", "argv": ["VARCHAR"],
              "git": {"commit": "VARCHAR", "dirty": "BOOLEAN"}, "versions": "JSON",
              "started": "VARCHAR"}') AS p
      FROM runs WHERE event = 'start' AND json_valid(payload))

--> run_end < runs
SELECT stem, ordinal, run, job, p.* EXCLUDE (ended),
       coalesce(TRY_CAST(p.ended AS TIMESTAMPTZ) AT TIME ZONE 'UTC',
                make_timestamp((ts * 1e6)::BIGINT)) AS ended
FROM (SELECT *, from_json(payload, '{"exit_code": "INTEGER", "ended": "VARCHAR",
              "sent": "BIGINT", "answered_from_cache": "BIGINT", "cells_done": "BIGINT",
              "cells_open": "BIGINT", "spend_usd": "DOUBLE", "seconds": "DOUBLE"}') AS p
      FROM runs WHERE event = 'end' AND json_valid(payload))

--> lane_state < runs
SELECT r.stem, r.ordinal, r.run, r.job, e.key AS lane, e.value AS statistics,
       make_timestamp((r.ts * 1e6)::BIGINT) AS ts
FROM (FROM runs WHERE event = 'lanes' AND json_valid(payload)) r, json_each(r.payload) e

--> plan < runs
SELECT stem, ordinal, run, job, p.*, make_timestamp((ts * 1e6)::BIGINT) AS ts
FROM (SELECT *, from_json(payload, '{"plan_id": "VARCHAR", "benchmark": "VARCHAR",
              "dataset": "VARCHAR"}') AS p
      FROM runs WHERE event = 'plan' AND json_valid(payload))

--> plan_column < runs
SELECT stem, ordinal, c.position, c.planned.id AS column_id, c.planned.model, c.planned.defence,
       c.planned.condition, c.planned.sample, c.planned.receiver, c.planned.turns,
       c.planned.simulated, c.planned.note, c.planned.judges
FROM (SELECT stem, ordinal,
             unnest(list_transform(columns, lambda x, i: {'position': i, 'planned': x})) AS c
      FROM (SELECT stem, ordinal, from_json(payload, '{"columns": [{"id": "VARCHAR",
                   "model": "VARCHAR", "defence": "VARCHAR", "condition": "VARCHAR",
                   "sample": "INTEGER", "receiver": "VARCHAR", "turns": "INTEGER",
                   "simulated": "BOOLEAN", "note": "VARCHAR",
                   "judges": [{"name": "VARCHAR", "kind": "VARCHAR", "model": "VARCHAR"}]}]}'
                   ).columns AS columns
            FROM runs WHERE event = 'plan' AND json_valid(payload)))

--> plan_item < runs
SELECT stem, ordinal, c.position, c.pair[1] AS item, c.pair[2] AS digest
FROM (SELECT stem, ordinal,
             unnest(list_transform(items, lambda x, i: {'position': i, 'pair': x})) AS c
      FROM (SELECT stem, ordinal, from_json(payload, '{"items": [["VARCHAR"]]}').items AS items
            FROM runs WHERE event = 'plan' AND json_valid(payload)))

--> item_attribute < runs
SELECT stem, ordinal, a[1] AS item, a[2] AS attribute, a[3] AS category, a[4] AS value_hash
FROM (SELECT stem, ordinal,
             unnest(from_json(payload, '{"attributes": [["VARCHAR"]]}').attributes) AS a
      FROM runs WHERE event = 'plan' AND json_valid(payload))

--> batch_event < batches
SELECT * EXCLUDE (ts), make_timestamp((ts * 1e6)::BIGINT) AS ts FROM batches

--> price < runs
SELECT stem, ordinal, model, tier, (price ->> 'input')::DOUBLE AS usd_in,
       (price ->> 'output')::DOUBLE AS usd_out, (price ->> 'cached')::DOUBLE AS usd_cached,
       TRY_CAST(price ->> 'valid_from' AS DATE) AS valid_from, price ->> 'source' AS source
FROM (SELECT r.stem, r.ordinal, e.key AS model,
             unnest([{'tier': 'online', 'price': e.value},
                     {'tier': 'batch', 'price': e.value -> 'batch'}], recursive := true)
      FROM (FROM runs WHERE event = 'plan' AND json_valid(payload)) r,
           json_each(r.payload, '$.prices') e)
WHERE json_type(price) = 'OBJECT' AND price ->> 'input' IS NOT NULL

--> profile_attribute < runs
FROM plan_profiles

--> context < runs
FROM plan_contexts

--> instance < runs
FROM plan_instances

--> item_payload < runs
SELECT * EXCLUDE (payload), TRY_CAST(payload AS JSON) AS payload FROM plan_item_payloads

--> label_given < runs
FROM plan_labels

--> label_rule < runs
SELECT stem, ordinal, rule.job AS label_job, rule.weights, rule.threshold, rule.basics
FROM (SELECT stem, ordinal, from_json(payload, '{"label_rule": {"job": "VARCHAR",
             "weights": "MAP(VARCHAR, DOUBLE)", "threshold": "DOUBLE", "basics": "VARCHAR"}}'
             ).label_rule AS rule
      FROM runs WHERE event = 'plan' AND json_valid(payload))
WHERE rule IS NOT NULL

--> plan_model < runs
SELECT r.stem, r.ordinal, e.key AS model, e.value ->> 'family' AS family,
       (e.value ->> 'size_b')::DOUBLE AS size_b
FROM (FROM runs WHERE event = 'plan' AND json_valid(payload)) r,
     json_each(r.payload, '$.models') e
