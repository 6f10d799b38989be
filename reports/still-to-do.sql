-- What is still to be done?
-- Planned cells that a run of the job would run now. missing: no record yet; open: a call failed in
-- a way that is worth another try, reply_outcome says how. last_tried is the newest attempt.
SELECT job, simulated, model, receiver, defence, condition, status, reply_outcome,
       count(*) AS cells, max(last_tried) AS last_tried
FROM todo
GROUP BY job, simulated, model, receiver, defence, condition, status, reply_outcome
ORDER BY job, simulated, model, receiver, defence, condition, status, reply_outcome;
