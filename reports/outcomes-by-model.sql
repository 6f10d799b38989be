-- How did the calls to each model end, in each role?
-- One row an outcome; `failed` attempts were sent again, so a call may count more than once.
SELECT job, simulated, model, role, kind, outcome, sum(attempts)::BIGINT AS attempts,
       round(sum(attempts) / sum(sum(attempts)) OVER (PARTITION BY job, simulated, model, role), 4)
           AS share
FROM outcomes
GROUP BY job, simulated, model, role, kind, outcome
ORDER BY job, model, role, attempts DESC, outcome;
