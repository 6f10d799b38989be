-- Does a leak depend on who listens, or on how long the chat is?
-- In `parties` only the number of people changes, in `length` only the length of the chat; a rate
-- that moves in one arm alone shows its cause. bases counts items: replies to one are not
-- independent of each other.
WITH arms AS (
    SELECT c.job, c.simulated, c.column_id, c.item, c.model, c.defence, c.condition, c.sample,
           c.extra -> 'variant' ->> 'arm' AS arm,
           (c.extra -> 'variant' ->> 'parties')::INT AS parties,
           (c.extra -> 'variant' ->> 'tokens')::INT AS tokens,
           c.extra -> 'variant' ->> 'base' AS base
    FROM cell c WHERE (c.extra -> 'variant') IS NOT NULL
)
SELECT a.job, a.simulated, v.judge, a.model, a.defence, a.condition, a.arm, a.parties, a.tokens,
       count(DISTINCT a.base) AS bases, count(*) AS replies, count(v.leaked) AS known,
       count(*) FILTER (v.leaked) AS leaks, count(*) - count(v.leaked) AS unknown,
       round(count(*) FILTER (v.leaked) / nullif(count(v.leaked), 0), 4) AS rate,
       round(wilson_low(count(*) FILTER (v.leaked), count(v.leaked)), 4) AS lo,
       round(wilson_high(count(*) FILTER (v.leaked), count(v.leaked)), 4) AS hi
FROM arms a JOIN verdict_now v USING (job, column_id, item)
GROUP BY a.job, a.simulated, v.judge, a.model, a.defence, a.condition, a.arm, a.parties, a.tokens
ORDER BY a.job, a.simulated, v.judge, a.model, a.defence, a.condition, a.arm, a.parties, a.tokens;
