-- Do assistants leak more in the group than in private, on the same facts of the same items?
-- b leaked in the group only, c in private only; p is McNemar's exact two-sided p (not corrected
-- for the number of rows). Pairs with an unknown side count in `unknown` and in nothing else; where
-- there are no others p is null.
SELECT job, simulated, judge, model, defence, pairs, unknown, both_leak, b, c, neither,
       round(group_rate, 4) AS group_rate, round(one_to_one_rate, 4) AS one_to_one_rate,
       CASE WHEN pairs > unknown THEN round(p, 6) END AS p
FROM channel
ORDER BY job, simulated, judge, model, defence;
