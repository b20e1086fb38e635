// All waits and bounds between actors: one constant per kind of wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace troupe::defaults {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A worker is dead to the scheduler when it has not renewed for this long, or its connection closes.
inline constexpr auto lease = seconds{2};
/// Four renewals fit into a lease, so one lost or late renewal does not kill a worker.
inline constexpr auto lease_interval = milliseconds{500};
/// /health reports a worker process as failed when it has not reported its load to its own member for this
/// long.
inline constexpr auto worker_silence = seconds{10};
/// Finding and joining a peer, handshake included.
inline constexpr auto connect_timeout = seconds{2};
/// Longest first pause between attempts to reach an absent scheduler; doubles up to `reconnect_max`. Each
/// pause is drawn from the upper half of its range.
inline constexpr auto reconnect_min = milliseconds{50};
inline constexpr auto reconnect_max = milliseconds{1000};
/// Longest attempt at one of several schedulers: a hung one must not keep workers from its standby.
inline constexpr auto scheduler_probe = milliseconds{500};
/// The scheduler gathers reports of workers for this long before it decides and publishes, so that a thousand
/// simultaneous joins cause a few publications. A death is handled at once, unless another one was handled
/// just before.
inline constexpr auto gather_changes = milliseconds{5};
/// Period of the scheduler's checks of leases and deadlines: a twentieth of a lease.
inline constexpr auto scheduler_tick = milliseconds{100};
/// A restarted scheduler waits this long for the workers that it knew before it publishes: a lease for the
/// live ones, plus the longest pause between their attempts to reach it.
inline constexpr auto scheduler_recovery = lease + reconnect_max;
/// While workers keep returning, the wait is extended by this much after each of them ...
inline constexpr auto recovery_extension = reconnect_max;
/// ... up to this limit in all. Until then an attention worker known to the predecessor is not declared dead
/// either: its sequences run, and their sessions hear from it.
inline constexpr auto recovery_limit = seconds{10};
/// Renewal period of the active scheduler's lease on the state directory. Its standby declares it dead when
/// it has not renewed for `scheduler_lease`. The end of its process is noticed within `standby_poll`.
inline constexpr auto scheduler_lease_interval = lease_interval;
inline constexpr auto scheduler_lease = lease;
inline constexpr auto standby_poll = milliseconds{50};
/// A starting scheduler waits at most this long for the file system of its state directory.
inline constexpr auto state_dir_wait = seconds{10};
/// When the disk takes longer than this to save a state, the operator is warned. Serving continues.
inline constexpr auto slow_save = seconds{5};
/// When a save that the disk has not finished is abandoned for a newer one.
inline constexpr auto save_timeout = seconds{600};
/// How long a gateway holds new requests while the scheduler is away.
inline constexpr auto scheduler_away = seconds{2};
/// A replayed request avoids workers that already failed it for this long, even if only they have room.
inline constexpr auto avoid_wait = lease;
/// A request that does not fit may be overtaken for this long, counted from the first overtaking. After that
/// nothing overtakes it, so that small requests cannot starve a large one.
inline constexpr auto overtaking = seconds{10};
/// Longest wait of a request for a place, then it is refused: the default timeout of OpenAI's clients.
inline constexpr auto admission_wait = seconds{600};
/// A new request with a longer expected wait for a place is refused at once with ec::overloaded; one that did
/// wait this long gets ec::deadline_exceeded.
inline constexpr auto queue_wait = seconds{60};
/// An unanswered expert batch is sent once more after max(this, 5 × the expected time). A dead connection is
/// noticed far sooner. A late answer still counts.
inline constexpr auto expert_batch_timeout = seconds{10};
/// A batch is hedged to a replica after max(this, 5 × the expected time): the worker may be slow, not dead.
inline constexpr auto hedge_min = milliseconds{50};
/// At most one of N batches is a hedge, counted over N batches: under sudden load all hosts look slow, and
/// hedging must not double that load.
inline constexpr std::int64_t batches_per_hedge = 10;
inline constexpr std::int64_t hedge_window = 200;
/// A host's report of its queue fades to nothing within this time. Otherwise a host that was busy once would
/// not be asked again, and so never be known as free.
inline constexpr auto queue_news = milliseconds{100};
/// Expected time of an expert batch before the first measurement: cold caches and a long first prefill.
inline constexpr auto unmeasured_expert_batch = milliseconds{400};
/// How long a micro-batch waits for an expert without a host, or without an answer, before its requests are
/// given back.
inline constexpr auto unhosted_wait = seconds{60};
/// A step is hung when it takes longer than max(this, engine_stall_factor × the longest recent step). Its
/// worker counts as dead even if its actor answers. The same bound of silence makes others complain about a
/// worker.
inline constexpr auto engine_stall = seconds{10};
inline constexpr int engine_stall_factor = 20;
/// A single complaint fences a worker once the silence is N times the limit.
inline constexpr int lone_complaint_factor = 3;
/// Loading experts from disk.
inline constexpr auto host_order_timeout = seconds{600};
/// A fetch gives up a source that has not sent the requested piece of weights for this long.
inline constexpr auto weights_chunk_timeout = seconds{2};
/// A source that was given up, or was unreachable, is asked last for this long.
inline constexpr auto weights_avoid = seconds{10};
/// When all sources of an expert are at their limit of transfers, they are asked again after this pause ...
inline constexpr auto weights_busy_pause = milliseconds{100};
/// ... until this much time has passed.
inline constexpr auto weights_busy_wait = seconds{20};
/// A transfer of an expert ends when its reader has requested nothing for this long.
inline constexpr auto weights_idle = seconds{5};
/// Longest pause before a worker that failed to load experts is asked again; pauses double from
/// `reconnect_min`.
inline constexpr auto host_order_retry_max = seconds{10};
/// Period of a session's checks of its deadlines, and the longest that its memory outlives it.
inline constexpr auto session_tick = seconds{1};
/// How often a healthy attention worker reassures sessions that get no tokens. One word may be late by a long
/// step and still arrive before the sessions consider the worker hung.
inline constexpr auto progress_interval = engine_stall / 2;
/// A session that hears nothing for this long replays elsewhere: the last resort behind connections and
/// leases.
inline constexpr auto token_wait = seconds{600};
/// Deadline of a request between actors of one process.
inline constexpr auto local_request = seconds{5};
/// How long a leaving worker that others depend on serves on without a scheduler: as long as requests wait
/// for an expert without a host.
inline constexpr auto leave_alone = unhosted_wait;
/// The same for an expert worker that meanwhile got no batches: replacing a scheduler takes less.
inline constexpr auto leave_idle = seconds{20};
/// Longest drain at SIGTERM, unless --drain-timeout is given: the time to move away what the worker holds.
inline constexpr auto worker_drain = seconds{300};
/// The same for a worker that ends because of a fault.
inline constexpr auto faulty_drain = seconds{30};
/// How often an attention worker reports newly counted uses of experts.
inline constexpr auto history_interval = seconds{5};
/// Half-life of the history's counts, in working time: some hundred windows of a worker, yet shorter than the
/// changes over a day.
inline constexpr auto history_half_life = seconds{600};
/// Shortest period between two saves of a changed history.
inline constexpr auto history_save_interval = seconds{60};

/// How often the rebalancer looks at the expert hosts.
inline constexpr auto rebalance_look = seconds{1};
/// Longest time for a plan: far longer than the largest search takes.
inline constexpr auto planning = seconds{300};
/// Longest time for an operator's command: its changes are planned before it is answered.
inline constexpr auto placement_command = planning + local_request;
/// When a move of an expert is given up that the scheduler neither completed nor refused: two orders, one to
/// load and one to release.
inline constexpr auto expert_move = 2 * host_order_timeout;

/// Memory of the requests that wait for a place (`queue_bytes_of`): some 40,000 short ones, or 16 prompts of
/// a million tokens. Requests beyond it are refused with ec::overloaded.
inline constexpr std::uint64_t max_queued_bytes = std::uint64_t{64} << 20;
/// The same queue's bound in requests; 0: only memory bounds it.
inline constexpr std::uint32_t max_num_queued_reqs = 0;
/// Memory of the requests that one gateway holds while the scheduler is away; requests beyond it are refused
/// with ec::overloaded.
inline constexpr std::uint64_t max_held_bytes = max_queued_bytes;
inline constexpr std::uint32_t max_num_seqs = 64;
/// Sequences that may wait in an attention worker beyond those that it runs: the scheduler's limit, except
/// while it recovers the state of the workers.
inline constexpr std::uint32_t max_waiting_seqs = 256;
/// A running sequence slows a new one down as much as so many tokens of its prompt would: what the scheduler
/// weighs a known beginning against.
inline constexpr std::uint64_t sequence_cost_tokens = 128;
/// Landmarks of its KV store that an attention worker reports in each renewal: 8 KiB.
inline constexpr std::size_t max_prefix_digest = 1024;
/// Assumed `admission_quantile` of the answer lengths before any answer has ended. Most answers are shorter
/// than max_tokens, and a worker whose cache is full preempts its last sequence.
inline constexpr std::uint32_t expected_new_tokens = 1024;
/// Quantile of the answer lengths for which KV memory is reserved.
inline constexpr double admission_quantile = 0.8;
/// Tenants whose answer lengths are kept apart; each takes less than a KiB.
inline constexpr std::size_t max_known_tenants = 1024;
/// How many requests of one tenant are examined for one that fits, behind a request that does not.
inline constexpr std::size_t max_looked_past = 64;
/// After this many overtakings by later, more urgent sequences, a preempted sequence gets their priority.
inline constexpr std::uint32_t max_put_back = 16;
/// Most experts that one host order adds. Small orders let loaded experts serve early, and plans change in
/// between.
inline constexpr std::size_t max_experts_per_order = 64;
/// Bytes of weights in one message; a fetch has one under way. An expert batch may wait behind one message:
/// 0.2 ms at 10 Gbit/s.
inline constexpr std::uint32_t weights_chunk_bytes = 256 * 1024;
/// Experts that one worker sends at a time; further readers are asked to retry.
inline constexpr std::uint32_t max_weights_sent = 4;
/// Sources that a host is given for one expert.
inline constexpr std::size_t max_weight_sources = 3;
/// Rows of one micro-batch: prefill is cut into chunks of this size, which bounds the wait of decodes.
inline constexpr std::uint32_t max_num_batched_tokens = 512;
/// Rows that may wait in one expert host; batches beyond it are refused with ec::overloaded.
inline constexpr std::uint32_t max_queued_expert_rows = 65536;
/// Recent windows that the activation history keeps, and their bytes: some 20 minutes of one attention
/// worker, or a minute of twenty.
inline constexpr std::size_t max_history_windows = 256;
inline constexpr std::size_t max_history_bytes = std::size_t{4} << 20;
/// Worker incarnations whose counted windows the history remembers.
inline constexpr std::size_t max_history_workers = 1024;
/// Windows that an attention worker keeps until the history has saved them: those of `history_save_interval`,
/// and a few for a slow disk.
inline constexpr std::size_t max_unsaved_windows = 16;
/// Replays of one sequence after failures before the client sees an error.
inline constexpr std::uint32_t max_attempts = 16;

} // namespace troupe::defaults
