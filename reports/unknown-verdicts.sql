-- Why is a verdict unknown or missing, and how often?
-- `missing` are planned cells without a record; `open` cells are asked again by the next run.
SELECT job, simulated, judge, model, defence, condition, state, status AS cell,
       coalesce(why, 'not run yet') AS why, count(*) AS verdicts, min(item) AS example_item
FROM leak_unit
WHERE state IN ('unknown', 'missing')
GROUP BY ALL
ORDER BY job, verdicts DESC, judge, model, defence, condition, why;
