-- How useful are the replies, by model and defence, and how many are useful without a leak?
-- rate is over known ratings, joint_rate over replies of which usefulness and leak are both known
-- (one row a leak judge). Bounds take what is unknown or missing as no, and as yes; marked = true
-- where more than 2 % is not known.
SELECT u.job, u.simulated, u.judge, u.model, u.defence, u.condition, u.planned, u.known, u.useful,
       u.unknown, u.missing, round(u.rate, 4) AS rate, round(u.lo, 4) AS lo, round(u.hi, 4) AS hi,
       round(u.bound_low, 4) AS bound_low, round(u.bound_high, 4) AS bound_high, u.marked,
       j.leak_judge, j.joint, round(j.rate, 4) AS joint_rate, round(j.lo, 4) AS joint_lo,
       round(j.hi, 4) AS joint_hi
FROM utility_rate u
LEFT JOIN joint j ON j.job = u.job AND j.simulated = u.simulated AND j.utility_judge = u.judge
    AND j.model = u.model AND j.defence = u.defence AND j.condition = u.condition
ORDER BY u.job, u.simulated, u.judge, u.model, u.condition, u.defence, j.leak_judge;
