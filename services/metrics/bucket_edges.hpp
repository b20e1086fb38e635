// Bucket edges of the histograms: vLLM's, so that its dashboards fit, plus finer ones for our shorter times.
#pragma once

#include <vector>

namespace troupe::metrics {

using bucket_edges = std::vector<double>;

/// Seconds to the first token: vLLM's.
inline const bucket_edges first_token_seconds{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                              1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
/// Seconds between tokens: vLLM's from .01 up; the smaller ones are for small models on a CPU.
inline const bucket_edges inter_token_seconds{.0005, .001, .002, .003, .005, .0075, .01, .025, .05,
                                              .075,  .1,   .15,  .2,   .3,   .4,    .5,  .75,  1,
                                              2.5,   5,    7.5,  10,   20,   40,    80};
/// Seconds of whole requests and their waits: vLLM's.
inline const bucket_edges request_seconds{.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                          30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
/// Seconds of tokenizing a text or rendering a conversation: from one word to a request's limit of 10 s.
inline const bucket_edges text_seconds{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05,
                                       .1,    .2,    .5,    1,    2,    5,    10,  20};
/// Token counts: vLLM's 1-2-5 series, to 200,000.
inline const bucket_edges token_counts{1,    2,    5,    10,    20,    50,    100,    200,   500,
                                       1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
/// Seconds of one expert batch: powers of about two from 20 µs (one decode row of a small expert on one core)
/// to 10 s (actors' expert_batch_timeout).
inline const bucket_edges expert_batch_seconds{.00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01,
                                               .02,    .05,    .1,    .2,    .5,    1,    2,    5,    10};

} // namespace troupe::metrics
