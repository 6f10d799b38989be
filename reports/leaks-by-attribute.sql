-- How often does each sensitive category leak, by model, defence, condition and judge?
-- rate = leaks / known, with a 95 % Wilson interval (lo, hi). Unknown verdicts and missing cells
-- are never "no leak": bound_low and bound_high take all of them as no leak, and as leak.
-- marked = true where more than 2 % of what was planned is not known: read the bounds there.
SELECT job, simulated, category, model, defence, condition, judge, planned, known, leaks, unknown,
       missing, round(rate, 4) AS rate, round(lo, 4) AS lo, round(hi, 4) AS hi,
       round(bound_low, 4) AS bound_low, round(bound_high, 4) AS bound_high, marked
FROM leak_rate
ORDER BY job, simulated, category, model, defence, condition, judge;
