-- Which sender leaks most, and does it depend on who listens?
-- Means over dialogues whose value is known, all conditions together; the bounds take what is
-- unknown as undisclosed and as disclosed. away: distance to the sender's mean over receivers.
SELECT job, simulated, judge, model AS sender, receiver, turns, planned, leak_instances,
       leak_undefined, leak_invalid, leak_missing, unlabelled, round(leak_full, 4) AS leak_full,
       round(leak_total, 4) AS leak_total, round(completeness, 4) AS completeness,
       round(leak_full - avg(leak_full) OVER sender, 4) AS leak_away,
       round(completeness - avg(completeness) OVER sender, 4) AS completeness_away,
       round(leak_full_low, 4) AS leak_full_low, round(leak_full_high, 4) AS leak_full_high, marked
FROM dialogue_matrix
WINDOW sender AS (PARTITION BY job, simulated, judge, defence, turns, model)
ORDER BY job, simulated, judge, turns, sender, receiver;
