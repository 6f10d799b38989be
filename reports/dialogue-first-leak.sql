-- In which round does an attribute leak for the first time?
-- hazard = first_disclosed / at_risk: the share of inappropriate attributes not disclosed in full
-- before that are now. Rounds after an early end have no message, and nothing is at risk in them.
-- leak_full is one round's own, cumulative of all up to it; repeated ones leaked before.
SELECT job, simulated, judge, model, condition, turns, round, dialogues, spoken, invalid, missing,
       round(leak_full, 4) AS leak_full, round(cumulative_leak_full, 4) AS cumulative, at_risk,
       first_disclosed, round(hazard, 4) AS hazard,
       round(wilson_low(first_disclosed, at_risk), 4) AS lo,
       round(wilson_high(first_disclosed, at_risk), 4) AS hi, repeated,
       round(repeat_share, 4) AS repeat_share
FROM dialogue_by_round
ORDER BY job, simulated, judge, model, condition, turns, round;
