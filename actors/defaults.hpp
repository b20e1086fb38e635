// Every wait and bound between actors, in one place: one constant per kind of wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace troupe::defaults {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A worker that has not renewed for this long is dead to the scheduler; a closed
/// connection is the other way to be declared dead.
inline constexpr auto lease = seconds{2};
/// Four renewals fit into a lease, so that one lost or late renewal is no death.
inline constexpr auto lease_interval = milliseconds{500};
/// A worker that has not said its load to its own member for so long is to be replaced: /health says so.
inline constexpr auto worker_silence = seconds{10};
/// Finding and joining a peer, handshake included.
inline constexpr auto connect_timeout = seconds{2};
/// Longest first pause between attempts to reach a scheduler that is away; doubles to `reconnect_max`. Each
/// is drawn from the upper half of what it may be.
inline constexpr auto reconnect_min = milliseconds{50};
inline constexpr auto reconnect_max = milliseconds{1000};
/// Finding one scheduler of several: one that hangs must not keep anybody from its standby.
inline constexpr auto scheduler_probe = milliseconds{500};
/// What workers tell is gathered for so long before the scheduler decides and publishes, so that a thousand
/// who join at once make a few publications. A death does not wait, unless another one has just been dealt
/// with.
inline constexpr auto gather_changes = milliseconds{5};
/// How often the scheduler looks at leases and deadlines: a twentieth of a lease.
inline constexpr auto scheduler_tick = milliseconds{100};
/// A restarted scheduler waits so long for the workers it knew before it publishes: a lease for those that
/// are still there, and the longest pause between their attempts to reach it.
inline constexpr auto scheduler_recovery = lease + reconnect_max;
/// While workers keep coming it waits for the next one as long as any of them pauses between attempts ...
inline constexpr auto recovery_extension = reconnect_max;
/// ... and no longer than this in all. An attention worker that its predecessor knew is not declared gone
/// before that either: its sequences run, and their sessions hear from it.
inline constexpr auto recovery_limit = seconds{10};
/// The active scheduler renews its lease on the state directory so often, and is dead to its standby when it
/// has not for `scheduler_lease`. That its process has ended is seen within `standby_poll`.
inline constexpr auto scheduler_lease_interval = lease_interval;
inline constexpr auto scheduler_lease = lease;
inline constexpr auto standby_poll = milliseconds{50};
/// How long a scheduler that starts waits for the file system of its state directory.
inline constexpr auto state_dir_wait = seconds{10};
/// A state that the disk has not taken for so long is told to the operator; serving does not wait for it.
inline constexpr auto slow_save = seconds{5};
/// When a state that the disk has not taken is given up for a newer one.
inline constexpr auto save_timeout = seconds{600};
/// How long new requests wait at the gateway while the scheduler is away.
inline constexpr auto scheduler_away = seconds{2};
/// How long a replay holds out for a worker that has not failed it, while only those that have failed it have
/// room.
inline constexpr auto avoid_wait = lease;
/// How long other requests may go before one for which there is no room, from the first that does: then
/// nobody does any more, so that what needs a whole worker is not kept waiting by what needs little.
inline constexpr auto overtaking = seconds{10};
/// A request that waits longer than this for a place is refused: what clients of the OpenAI API wait for an
/// answer unless told otherwise.
inline constexpr auto admission_wait = seconds{600};
/// A new request that would wait longer than this for a place is refused at once with ec::overloaded; one
/// that has waited so long after all gets ec::deadline_exceeded.
inline constexpr auto queue_wait = seconds{60};
/// An expert batch without an answer is sent once more after max(this, 5 × the expected time); a dead
/// connection is noticed far sooner. An answer that comes after all still counts.
inline constexpr auto expert_batch_timeout = seconds{10};
/// Hedge to a replica after max(this, 5 × the expected time): a worker may be slow, not dead.
inline constexpr auto hedge_min = milliseconds{50};
/// At most one batch in so many is a hedge, counted over so many batches: sudden load on all hosts looks as
/// if all of them were slow, and must not double itself.
inline constexpr int64_t batches_per_hedge = 10;
inline constexpr int64_t hedge_window = 200;
/// What a host has said of its queue counts less with every moment, and after so long not at all: a host that
/// was busy once must be asked again to be known as free.
inline constexpr auto queue_news = milliseconds{100};
/// The expected time of an expert batch before any was measured: cold caches and a first long prefill.
inline constexpr auto unmeasured_expert_batch = milliseconds{400};
/// How long a micro-batch waits for an expert that nobody hosts, or answers for, before its requests are
/// given back.
inline constexpr auto unhosted_wait = seconds{60};
/// A step that an engine has had for longer than max(this, engine_stall_factor × the longest of late) is one
/// that it will not give back: the worker is dead, however well its actor answers. Who has heard nothing from
/// a worker for so long complains of it.
inline constexpr auto engine_stall = seconds{10};
inline constexpr int engine_stall_factor = 20;
/// A worker that so many limits of silence were complained of is fenced for a single complaint.
inline constexpr int lone_complaint_factor = 3;
/// Loading experts from disk.
inline constexpr auto host_order_timeout = seconds{600};
/// A worker that is asked for a piece of an expert's weights and says nothing for so long is given up.
inline constexpr auto weights_chunk_timeout = seconds{2};
/// One that was given up, or could not be reached, is asked last for so long.
inline constexpr auto weights_avoid = seconds{10};
/// Where all workers that have an expert send as many as they may, they are asked again after this pause ...
inline constexpr auto weights_busy_pause = milliseconds{100};
/// ... for so long.
inline constexpr auto weights_busy_wait = seconds{20};
/// An expert that is being sent and of which nobody has asked for more for so long is not being sent any
/// more.
inline constexpr auto weights_idle = seconds{5};
/// Longest pause before a worker that could not load its experts is asked again; from `reconnect_min` on it
/// doubles.
inline constexpr auto host_order_retry_max = seconds{10};
/// How often a session looks at its deadlines, and the longest that its memory outlives it.
inline constexpr auto session_tick = seconds{1};
/// How often an attention worker that gets on reassures sessions that get no tokens: a word may be late by a
/// long step, and still comes before they take the worker for hung.
inline constexpr auto progress_interval = engine_stall / 2;
/// A session that hears nothing for so long replays elsewhere: the safeguard behind connections and leases.
inline constexpr auto token_wait = seconds{600};
/// A question between actors of one process.
inline constexpr auto local_request = seconds{5};
/// Draining at SIGTERM: running requests get this long.
inline constexpr auto drain = seconds{30};
/// How often an attention worker that has something to tell reports which experts it has used.
inline constexpr auto history_interval = seconds{5};
/// Time of work after which what the history has counted weighs half: some hundred windows of a worker, and
/// still within a change of the time of day.
inline constexpr auto history_half_life = seconds{600};
/// How often a history that has changed is written, at most.
inline constexpr auto history_save_interval = seconds{60};

/// How often the rebalancer looks at the expert hosts.
inline constexpr auto rebalance_look = seconds{1};
/// How long a plan may take: far longer than the largest search that is asked for.
inline constexpr auto planning = seconds{300};
/// How long an operator's command may take: what it changes is planned before it is answered.
inline constexpr auto placement_command = planning + local_request;
/// When an expert's move is given up that the scheduler neither carries out nor refuses: two orders, to load
/// and to let go.
inline constexpr auto expert_move = 2 * host_order_timeout;

/// Memory of the requests that wait for a place (`queue_bytes_of`): some 40,000 short ones, or 16 prompts of
/// a million tokens. Beyond it they are refused with ec::overloaded.
inline constexpr uint64_t max_queued_bytes = uint64_t{64} << 20;
/// The same queue by number; 0: its memory alone bounds it.
inline constexpr uint32_t max_num_queued_reqs = 0;
/// Memory of the requests that one gateway holds while the scheduler is away; beyond it they are refused with
/// ec::overloaded.
inline constexpr uint64_t max_held_bytes = max_queued_bytes;
inline constexpr uint32_t max_num_seqs = 64;
/// Sequences that may wait in an attention worker, on top of as many as it runs: the scheduler sends no more
/// than those, except while it learns again what runs where.
inline constexpr uint32_t max_waiting_seqs = 256;
/// New tokens that `admission_quantile` of the answers are taken not to exceed before any has ended. Most are
/// shorter than what their clients allow, and a worker whose cache is full takes the blocks of its last
/// sequence back.
inline constexpr uint32_t expected_new_tokens = 1024;
/// Share of the answers that the room set aside for one should be enough for.
inline constexpr double admission_quantile = 0.8;
/// Tenants whose answers are told apart; each takes less than a KiB.
inline constexpr size_t max_known_tenants = 1024;
/// Requests behind one that finds no room which are looked at for one that does, of one tenant.
inline constexpr size_t max_looked_past = 64;
/// A sequence that has lost its blocks, and that so many more urgent ones have gone before since then,
/// becomes as urgent as they are.
inline constexpr uint32_t max_put_back = 16;
/// Experts that one host order adds at most, so that what is loaded serves early and plans can change
/// between.
inline constexpr size_t max_experts_per_order = 64;
/// Bytes of weights in one message, of which one a fetch is on its way: what an expert batch may wait behind,
/// a fifth of a millisecond at 10 Gbit/s.
inline constexpr uint32_t weights_chunk_bytes = 256 * 1024;
/// Experts that one worker sends at a time; others who ask are told to come again.
inline constexpr uint32_t max_weights_sent = 4;
/// Workers that a host is told of for one expert.
inline constexpr size_t max_weight_sources = 3;
/// Rows of one micro-batch: prefill is cut into chunks so that decodes never wait for more than this.
inline constexpr uint32_t max_num_batched_tokens = 512;
/// Rows that may wait in one expert host; beyond it batches are refused with ec::overloaded.
inline constexpr uint32_t max_queued_expert_rows = 65536;
/// Windows that the activation history keeps as they came, and their bytes: some 20 minutes of one attention
/// worker, or a minute of twenty.
inline constexpr size_t max_history_windows = 256;
inline constexpr size_t max_history_bytes = size_t{4} << 20;
/// Incarnations of workers of which the history knows what it has counted.
inline constexpr size_t max_history_workers = 1024;
/// Windows that an attention worker keeps because the history has not been written since: those of
/// `history_save_interval`, and a few for a slow disk.
inline constexpr size_t max_unsaved_windows = 16;
/// Replays of one sequence after failures before the client sees an error.
inline constexpr uint32_t max_attempts = 16;

} // namespace troupe::defaults
