-- What did each lane cost, failed attempts included?
-- usd is empty where no price is known, and a lower bound where usd_complete is false: then
-- unpriced_tokens were used at a price nobody gave. uncounted failures brought no token counts.
SELECT job, simulated, lane, model, requests, failed, uncounted, input_tokens, cached_tokens,
       output_tokens, reasoning_tokens, priced_tokens, unpriced_tokens, round(usd, 6) AS usd,
       usd_complete
FROM spend
ORDER BY usd DESC NULLS LAST, requests DESC, job, lane, model;
