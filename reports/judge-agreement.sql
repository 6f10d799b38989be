-- How far do two judges agree on the same replies?
-- a_only: only judge_a saw a leak. kappa corrects agreement for chance (1 = always, 0 = as chance
-- would have it). Verdicts that either judge left unknown count in `unknown` and nowhere else.
SELECT job, simulated, judge_a, judge_b, model, sum(pairs)::BIGINT AS pairs,
       sum(both_leak)::BIGINT AS both_leak, sum(a_only)::BIGINT AS a_only,
       sum(b_only)::BIGINT AS b_only, sum(neither)::BIGINT AS neither,
       sum(unknown)::BIGINT AS unknown,
       round(sum(both_leak + neither) / nullif(sum(pairs - unknown), 0), 4) AS agreement,
       round(kappa(sum(both_leak), sum(a_only), sum(b_only), sum(neither)), 4) AS kappa
FROM disagreement
GROUP BY job, simulated, judge_a, judge_b, model
ORDER BY job, judge_a, judge_b, model;
