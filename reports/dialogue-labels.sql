-- How many attributes are necessary, inappropriate or ambiguous in a context, and who decided?
-- Means over labelled contexts of each profile. kept: contexts where neither set is empty, the only
-- ones that the released script counts. basic: inappropriate, but left out as name, address, sex
-- or age; exact and compat are |inappropriate| by the two readings of that. both_votes counts
-- samples that listed an attribute twice (NULL where labels come from a file).
SELECT job, simulated, profile, count(*) AS contexts, count(*) FILTER (labelled) AS labelled,
       count(*) FILTER (kept) AS kept, max(attributes) AS attributes,
       round(avg(necessary) FILTER (labelled), 2) AS necessary,
       round(avg(inappropriate) FILTER (labelled), 2) AS inappropriate,
       round(avg(ambiguous) FILTER (labelled), 2) AS ambiguous,
       round(avg(basic) FILTER (labelled), 2) AS basic,
       round(avg(inappropriate_exact) FILTER (labelled), 2) AS exact,
       round(avg(inappropriate_compat) FILTER (labelled), 2) AS compat,
       round(sum(ambiguous) FILTER (labelled)
             / nullif(sum(attributes) FILTER (labelled), 0), 4) AS ambiguous_share,
       sum(both_votes)::BIGINT AS both_votes
FROM label_count
GROUP BY job, simulated, profile
ORDER BY job, simulated, profile;
