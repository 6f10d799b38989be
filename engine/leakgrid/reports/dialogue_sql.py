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
       sum(leak_full_high) AS leak_full_high_sum, sum(leak_total_low) AS leak_total_low_sum,
       sum(leak_total_high) AS leak_total_high_sum,
       coalesce(sum(leak_full_unknown) FILTER (whole), 0)::BIGINT AS leak_unsure,
       coalesce(sum(leaked_full + leaked_partial + leak_unknown) FILTER (whole), 0)::BIGINT
           AS leak_told,
       count(*) FILTER (leak_state = 'undefined') AS leak_undefined,
       count(*) FILTER (leak_state = 'invalid') AS leak_invalid,
       count(*) FILTER (leak_state = 'missing') AS leak_missing,
       count(completeness) AS completeness_n, sum(completeness) AS completeness_sum,
       count(completeness_low) AS completeness_defined,
       sum(completeness_low) AS completeness_low_sum,
       sum(completeness_high) AS completeness_high_sum,
       coalesce(sum(completeness_full_unknown) FILTER (whole), 0)::BIGINT AS completeness_unsure,
       coalesce(sum(told_full + told_partial + completeness_unknown) FILTER (whole), 0)::BIGINT
           AS completeness_told,
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

# over attributes of all conditions together, by label set; a rate outside its bounds is none
DOMAINS = """
WITH part AS (
    SELECT simulated, judge, turns, model, domain, label_set, sum(fully)::BIGINT AS fully,
           sum(known_full)::BIGINT AS known,
           within(sum(fully) / nullif(sum(known_full), 0),
                  sum(d.bound_low * planned) / sum(planned),
                  sum(d.bound_high * planned) / sum(planned)) AS rate
    FROM dialogue_by_domain d WHERE job = $job AND domain IS NOT NULL
    GROUP BY simulated, judge, turns, model, domain, label_set
)
SELECT simulated, judge, turns, model, domain,
       any_value(fully) FILTER (label_set = 'inappropriate') AS leaks,
       any_value(known) FILTER (label_set = 'inappropriate') AS leaks_known,
       any_value(rate) FILTER (label_set = 'inappropriate') AS leaks_rate,
       any_value(fully) FILTER (label_set = 'necessary') AS told,
       any_value(known) FILTER (label_set = 'necessary') AS told_known,
       any_value(rate) FILTER (label_set = 'necessary') AS told_rate,
       any_value(fully) FILTER (label_set = 'ambiguous') AS unsettled,
       any_value(known) FILTER (label_set = 'ambiguous') AS unsettled_known,
       any_value(rate) FILTER (label_set = 'ambiguous') AS unsettled_rate
FROM part GROUP BY simulated, judge, turns, model, domain ORDER BY domain
"""

BASICS = """
SELECT simulated, judge, turns, model, basics, sum(instances)::BIGINT AS instances,
       sum(inappropriate)::BIGINT AS inappropriate,
       within(sum(b.leak_full_sum) / nullif(sum(instances), 0),
              sum(b.leak_full_low * defined) / sum(defined),
              sum(b.leak_full_high * defined) / sum(defined)) AS leak
FROM dialogue_basics b WHERE job = $job
GROUP BY simulated, judge, turns, model, basics ORDER BY basics <> 'exact', basics
"""

REVEALED = """
SELECT simulated, judge, turns, receiver, condition, receiver_profile AS profile,
       count(*) AS planned, count(reveal_full) AS known, sum(reveal_full) AS reveal_full_sum,
       sum(reveal_total) AS reveal_total_sum, sum(reveal_full_low) AS reveal_full_low_sum,
       sum(reveal_full_high) AS reveal_full_high_sum, sum(reveal_total_low) AS reveal_total_low_sum,
       sum(reveal_total_high) AS reveal_total_high_sum
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
          FROM reveal_now WHERE level <> 'turn' AND NOT full_unsure GROUP BY ALL) r
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
