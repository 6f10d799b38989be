-- In which round does an attribute leak for the first time?
-- hazard = first_disclosed / at_risk: the share of inappropriate attributes not disclosed in full
-- before that are now. Rounds after an early end have no message, and nothing is at risk in them.
-- leak_full is one round's own, cumulative of all up to it; repeated ones leaked before. Bounds take
-- what is unknown as not told (low), and as told (high); marked: so much is unknown that only they
-- should be read, and hazard is of what is known.
SELECT job, simulated, judge, model, condition, turns, round, dialogues, spoken, invalid, missing,
       round(leak_full, 4) AS leak_full, round(leak_full_low, 4) AS leak_low,
       round(leak_full_high, 4) AS leak_high, round(cumulative_leak_full, 4) AS cumulative,
       round(cumulative_leak_full_low, 4) AS cumulative_low,
       round(cumulative_leak_full_high, 4) AS cumulative_high, marked, at_risk,
       first_disclosed, round(hazard, 4) AS hazard,
       round(wilson_low(first_disclosed, at_risk), 4) AS lo,
       round(wilson_high(first_disclosed, at_risk), 4) AS hi, repeated,
       round(repeat_share, 4) AS repeat_share
FROM dialogue_by_round
ORDER BY job, simulated, judge, model, condition, turns, round;
