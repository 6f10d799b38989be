-- Which batches are out at their services, and what did those that ended bring?
-- state: written (nothing sent yet), uploaded, out (paid for), harvested (answers are kept) or
-- abandoned (never ran; why says so, and its calls are planned anew). simulated is empty where an
-- older leakgrid sent the batch: not known.
SELECT job, simulated, lane, state, batch, calls, answered, failed, ended_as, why,
       round(usd_expected, 6) AS usd_expected, round(usd, 6) AS usd, written, ended,
       round(epoch(ended - written) / 3600, 2) AS hours
FROM batch
ORDER BY ended IS NOT NULL, written DESC, job, lane;
