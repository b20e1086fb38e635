// Events of the timeline: records of one size, which go to the file unchanged. Values and layout are the
// format of trace files: a change raises `file_version` (services/timeline/trace_format.hpp).
#pragma once

#include <array>
#include <cstdint>

namespace troupe::timeline {

/// Kinds of events. Beside each: the meaning of `id`, then the `args` in their order. "key" is that of a
/// request (sampling.hpp), "sequence" is choice << 32 | attempt, "batch" the key of a micro-batch, "expert"
/// is layer << 32 | index, "flow" identifies an expert batch in all processes. Append only.
enum class event_kind : std::uint16_t {
  none = 0,
  /// key: request, trace id (upper half, lower half), parent span; the text is the HTTP request's id.
  request_name = 1,
  /// worker; the text is its name.
  worker_name = 2,
  /// none; the text is an event of the cluster, "worker-gone: expert-1 ...".
  cluster_event = 3,

  // Gateway.
  http_request = 10,  ///< key: prompt tokens, output tokens
  prepare_text = 11,  ///< key: bytes of the body. On the thread that tokenizes.
  admission = 12,     ///< key: request, attempt. From the request for a place to the assignment.
  submit = 13,        ///< key: request, sequence, worker. On the session's thread.
  token_arrived = 14, ///< key: request, sequence, first index, tokens. On the session's thread.
  token_text = 15,    ///< key: prompt, choice, index in the choice, arrival time, number of its write
  token_write = 16,   ///< key: number of the write, bytes
  ask_place = 17,     ///< key: request, attempt. On the session's thread.

  // Scheduler.
  admit = 20,       ///< key: request, attempt. On the scheduler's thread.
  queue = 21,       ///< key: request, attempt, worker. The wait for a place.
  expert_move = 22, ///< expert: hosts before, hosts after, 1 on success

  // Attention worker.
  accept_sequence = 30, ///< key: request, sequence. On the worker's thread.
  sequence = 31,        ///< key: request, sequence, prompt tokens, new tokens
  sequence_wait = 32,   ///< key: request, sequence. From arrival to the first micro-batch.
  iteration = 33,   ///< key: request, sequence, batch, rows, first position, index of its token, 1 with one
  micro_batch = 34, ///< batch: rows, sequences, layers
  attention_step = 35, ///< batch: layer of the experts that it stopped for (or no_layer), rows, ns in the
                       ///< router, ns in sampling. On the thread that computes.
  expert_wait = 36,    ///< batch: layer, rows
  send_batch = 37,     ///< flow: batch, worker, layer, rows. On the worker's thread.
  /// flow: batch, worker, arrival and answer time there (by that process's clock), ns in the queue, ns
  /// computed, layer << 32 | rows, 1 for the last answer that the layer waited for
  expert_batch = 38,
  take_answer = 39, ///< flow: batch. On the worker's thread.
  token_sent = 40,  ///< key: request, sequence, first index. On the worker's thread.

  // Expert worker.
  accept_batch = 50,  ///< flow: layer, rows. On the host's thread.
  host_batch = 51,    ///< flow: layer, rows, ns in the queue, ns computed, step
  expert_step = 52,   ///< step: layer, batches, rows, experts. On the thread that computes.
  answer_batch = 53,  ///< flow. On the host's thread.
  weights_load = 54,  ///< expert: bytes, 1 if they came from another worker
  weights_fetch = 55, ///< expert: bytes, sending worker, fetch_outcome
  weights_sent = 56,  ///< expert: offset, bytes, reading worker. On the sender's thread.
};

/// Replaces a layer: the step ended with samples.
inline constexpr std::uint64_t no_layer = ~std::uint64_t{0};

/// Times are those of the process's steady clock, in nanoseconds.
struct event {
  event_kind kind = event_kind::none;
  std::uint16_t text_parts = 0; ///< following records with its text
  std::uint32_t text_bytes = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t id = 0;
  std::array<std::uint64_t, 8> args{};
};

static_assert(sizeof(event) == 96);

/// Most bytes of an event's text; the rest is cut.
inline constexpr std::uint32_t max_text_bytes = 4 * sizeof(event);

constexpr std::uint64_t packed(std::uint32_t upper, std::uint32_t lower) {
  return std::uint64_t{upper} << 32 | lower;
}

/// Spreads all bits of a value over the result (the finalizer of MurmurHash3). One to one.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}

} // namespace troupe::timeline
