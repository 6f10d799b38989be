-- Which sensitive domains leak, and which are told where they are needed?
-- rate_full and rate_total (full or partial) are over attributes of valid dialogues. Their 95 %
-- Wilson intervals take attributes for independent, which those of one profile are not. unknown
-- and missing ones are in neither; bound_low and bound_high take them as undisclosed / disclosed.
SELECT job, simulated, judge, domain, label_set, model, condition, turns, planned, known, fully,
       partly, unknown, missing, round(rate_full, 4) AS rate_full,
       round(wilson_low(fully, known), 4) AS lo, round(wilson_high(fully, known), 4) AS hi,
       round(rate_total, 4) AS rate_total, round(bound_low, 4) AS bound_low,
       round(bound_high, 4) AS bound_high
FROM dialogue_by_domain
WHERE label_set IN ('necessary', 'inappropriate')
ORDER BY job, simulated, judge, label_set, domain, model, condition, turns;
