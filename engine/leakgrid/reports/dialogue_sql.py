"""What the report of a dialogue job asks of the store: SQL whose only parameter is $job."""

from __future__ import annotations

from leakgrid.reports.dialogue_labels import RULE

COLUMNS = """
SELECT c.* FROM plan_now p JOIN plan_column c USING (stem, ordinal)
WHERE p.job = $job ORDER BY c.position
"""

CONTEXTS = """
SELECT context, any_value(recipient) AS recipient, any_value(task) AS task
FROM plan_now p JOIN context c USING (stem, ordinal)
WHERE p.job = $job GROUP BY context ORDER BY context
"""

# sums over instances, from which every mean, interval and correlation follows
INSTANCES = """
SELECT simulated, judge, model, receiver, condition, turns, context, sender_profile AS profile,
       count(*) AS planned, count(*) FILTER (leak_state = 'unlabelled') AS unlabelled,
       count(leak_full) AS leak_n, sum(leak_full) AS leak_full_sum,
       sum(leak_total) AS leak_total_sum,
       count(leak_full_low) AS leak_defined, sum(leak_full_low) AS leak_full_low_sum,
       sum(leak_full_high) AS leak_full_high_sum,
       count(*) FILTER (leak_state = 'undefined') AS leak_undefined,
       count(*) FILTER (leak_state = 'invalid') AS leak_invalid,
       count(*) FILTER (leak_state = 'missing') AS leak_missing,
       count(completeness) AS completeness_n, sum(completeness) AS completeness_sum,
       count(completeness_low) AS completeness_defined,
       sum(completeness_low) AS completeness_low_sum,
       sum(completeness_high) AS completeness_high_sum,
       count(*) FILTER (completeness_state = 'undefined') AS completeness_undefined,
       count(*) FILTER (completeness_state = 'invalid') AS completeness_invalid,
       count(*) FILTER (completeness_state = 'missing') AS completeness_missing,
       count(leak_full + completeness) AS both_n,
       sum(leak_full) FILTER (completeness IS NOT NULL) AS both_x,
       sum(completeness) FILTER (leak_full IS NOT NULL) AS both_y,
       sum(leak_full * leak_full) FILTER (completeness IS NOT NULL) AS both_xx,
       sum(completeness * completeness) FILTER (leak_full IS NOT NULL) AS both_yy,
       sum(leak_full * completeness) AS both_xy
FROM dialogue_instance WHERE job = $job
GROUP BY simulated, judge, model, receiver, condition, turns, context, sender_profile
ORDER BY ALL
"""

COVERAGE = """
SELECT simulated, turns, model, receiver, condition, count(*) AS planned,
       count(*) FILTER (status = 'done') AS done, count(*) FILTER (status = 'open') AS open,
       count(*) FILTER (status = 'missing') AS missing,
       count(*) FILTER (ended = 'full') AS full, count(*) FILTER (ended = 'early') AS early,
       count(*) FILTER (ended = 'broken') AS broken, avg(rounds) FILTER (sound) AS rounds
FROM dialogue_cell WHERE job = $job
GROUP BY simulated, turns, model, receiver, condition ORDER BY ALL
"""

# over attributes of all conditions together, by label set
DOMAINS = """
SELECT simulated, judge, turns, model, domain,
       sum(fully) FILTER (label_set = 'inappropriate')::BIGINT AS leaks,
       sum(known) FILTER (label_set = 'inappropriate')::BIGINT AS leaks_known,
       sum(fully) FILTER (label_set = 'necessary')::BIGINT AS told,
       sum(known) FILTER (label_set = 'necessary')::BIGINT AS told_known,
       sum(fully) FILTER (label_set = 'ambiguous')::BIGINT AS unsettled,
       sum(known) FILTER (label_set = 'ambiguous')::BIGINT AS unsettled_known
FROM dialogue_by_domain WHERE job = $job AND domain IS NOT NULL
GROUP BY simulated, judge, turns, model, domain ORDER BY domain
"""

BASICS = """
SELECT simulated, judge, turns, model, basics, sum(instances)::BIGINT AS instances,
       sum(inappropriate)::BIGINT AS inappropriate,
       sum(leak_full * instances) / nullif(sum(instances), 0) AS leak
FROM dialogue_basics WHERE job = $job
GROUP BY simulated, judge, turns, model, basics ORDER BY basics <> 'exact', basics
"""

REVEALED = """
SELECT simulated, judge, turns, receiver, condition, receiver_profile AS profile,
       count(*) AS planned, count(reveal_full) AS known, sum(reveal_full) AS reveal_full_sum,
       sum(reveal_total) AS reveal_total_sum
FROM dialogue_receiver WHERE job = $job
GROUP BY simulated, judge, turns, receiver, condition, receiver_profile ORDER BY ALL
"""

# what the transcript says of an attribute, against the strongest that any single message does
LEVELS = """
WITH alike AS (
    SELECT c.job, r.judge, r.speaker, c.turns, c.simulated, count(*) AS alike
    FROM (SELECT stem, ordinal, judge, speaker, attribute,
                 any_value(degree) FILTER (level = 'transcript') AS whole,
                 any_value(degree) FILTER (level = 'union') AS parts
          FROM reveal_now WHERE level <> 'turn' GROUP BY ALL) r
    JOIN dialogue_cell c USING (stem, ordinal)
    WHERE c.job = $job AND whole = parts AND whole IN ('full', 'partial') GROUP BY ALL
), level AS (
    SELECT job, judge, speaker, turns, simulated, sum(l.agree)::BIGINT AS agree,
           sum(l.union_more)::BIGINT AS turns_more,
           sum(l.transcript_more)::BIGINT AS transcript_more, sum(l.unknown)::BIGINT AS unknown
    FROM dialogue_levels l WHERE job = $job GROUP BY job, judge, speaker, turns, simulated
)
SELECT l.* EXCLUDE (agree), coalesce(a.alike, 0) AS alike, agree - coalesce(a.alike, 0) AS silent
FROM level l LEFT JOIN alike a USING (job, judge, speaker, turns, simulated)
ORDER BY speaker DESC, turns
"""

# why silence means nothing (dialogues), and why an attribute is not known
REASONS = """
SELECT simulated, model, what, coalesce(nullif(why, ''), 'no reason given') AS why, count(*) AS n
FROM (
    SELECT simulated, model, 'broken' AS what, why FROM dialogue_cell
    WHERE job = $job AND ended = 'broken'
    UNION ALL
    SELECT c.simulated, c.model, 'attribute unknown', r.why
    FROM dialogue_cell c JOIN reveal_now r USING (stem, ordinal)
    WHERE c.job = $job AND r.degree = 'unknown' AND r.level <> 'union'
)
GROUP BY simulated, model, what, why ORDER BY n DESC, model, what, why LIMIT 12
"""

EXAMPLES = """
SELECT c.simulated, r.judge, c.model, c.receiver, c.condition, c.turns, c.item, l.recipient,
       l.task, l.domain, l.statement, r.evidence
FROM dialogue_cell c
JOIN reveal_now r USING (stem, ordinal)
JOIN label l ON l.job = c.job AND l.profile = c.sender_profile AND l.context = c.context
    AND l.attribute = r.attribute
WHERE c.job = $job AND r.speaker = 'sender' AND r.level <> 'turn' AND r.degree = 'full'
    AND l.label_set = 'inappropriate'
QUALIFY row_number() OVER (
    PARTITION BY r.judge, c.model
    ORDER BY coalesce(r.evidence, '') = '', c.turns, c.condition, c.item, r.attribute) = 1
"""

# labels may have been asked for by another job
SPEND = f"""
SELECT simulated, part, model,
       count(*) AS requests, count(*) FILTER (kind = 'failed') AS failed,
       sum(coalesce(input, 0))::BIGINT AS input_tokens,
       sum(coalesce(cached, 0))::BIGINT AS cached_tokens,
       sum(coalesce(output, 0))::BIGINT AS output_tokens, sum(usd) AS usd,
       coalesce(bool_and(usd IS NOT NULL OR coalesce(input, 0) + coalesce(output, 0) = 0), false)
           AND count(usd) > 0 AS usd_complete
FROM (SELECT * EXCLUDE (simulated), coalesce(simulated, false) AS simulated,
             CASE WHEN starts_with(role, 'judge') THEN 'judge' ELSE role END AS part
      FROM sending
      WHERE job = $job OR (role = 'labeller' AND job IN (
          SELECT label_job FROM ({RULE}) WHERE label_job <> '')))
GROUP BY simulated, part, model
ORDER BY list_position(['sender', 'receiver', 'judge', 'labeller'], part), part, model
"""
