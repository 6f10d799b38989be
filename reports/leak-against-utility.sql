-- What does less leaking cost in usefulness, on the same replies?
-- Over replies of which both are known; joint is useful and clean. The changes are against no
-- defence, in shares of replies, and empty for defence none and where nothing is known.
WITH shares AS (
    SELECT job, simulated, leak_judge, utility_judge, model, condition, defence, planned, known,
           unknown, missing, joint, useful_leak, useless_clean, useless_leak,
           (useful_leak + useless_leak) / nullif(known, 0)::DOUBLE AS leak_rate,
           (joint + useful_leak) / nullif(known, 0)::DOUBLE AS utility_rate, rate, lo, hi
    FROM joint
)
SELECT s.job, s.simulated, s.leak_judge, s.utility_judge, s.model, s.condition, s.defence,
       s.planned, s.known, s.unknown, s.missing, s.joint, s.useful_leak, s.useless_clean,
       s.useless_leak, round(s.leak_rate, 4) AS leak_rate,
       round(s.utility_rate, 4) AS utility_rate, round(s.rate, 4) AS joint_rate,
       round(s.lo, 4) AS lo, round(s.hi, 4) AS hi,
       round(s.leak_rate - n.leak_rate, 4) AS leak_change,
       round(s.utility_rate - n.utility_rate, 4) AS utility_change
FROM shares s
LEFT JOIN shares n ON s.defence <> 'none' AND n.defence = 'none' AND n.job = s.job
    AND n.leak_judge = s.leak_judge AND n.utility_judge = s.utility_judge AND n.model = s.model
    AND n.condition = s.condition
ORDER BY s.job, s.simulated, s.leak_judge, s.utility_judge, s.model, s.condition, s.defence;
