// Runs pieces of decode steps as graphs: recorded once, then launched as one piece.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/model/cuda/cuda_pass.hpp"
#include "kernels/model/micro_batch.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <vector>

namespace troupe::model {

/// Everything that determines a piece's kernels and their arguments; their data is in memory.
struct step_shape {
  std::uint64_t pass = 0;
  std::size_t layer = 0; ///< at the start of the piece
  std::size_t operation = 0;
  bool begins = false;  ///< begins with embeddings, not with the experts' answers
  std::size_t rows = 0; ///< including padding, each of a sequence of its own
  std::size_t table_width = 0;
  std::uint32_t most_position = 0;
  /// Of all memory that can grow.
  std::vector<const std::byte*> addresses;

  friend auto operator<=>(const step_shape&, const step_shape&) = default;
};

/// A piece is computed directly the first time, so that memory grows to its size, recorded the second time,
/// and replayed from then on: the same kernels with the same arguments, so the same bits. After three failed
/// recordings it is always computed directly.
class step_graphs {
 public:
  /// The state of a pass after a piece.
  struct outcome {
    pause stopped = pause::done;
    pass_progress progress;
  };

  /// Enqueues the piece's work on the stream without waiting, and returns where it stops.
  /// @param is_recorded  events that measure time are meaningless then
  using piece = std::function<outcome(bool is_recorded)>;

  /// @param most  shapes to keep, at least 1; beyond it the least recently used one is forgotten
  explicit step_graphs(std::size_t most);

  /// Forgets all graphs if an exception leaves a scope: an interrupted step may have freed memory that they
  /// use, and smaller memory may be allocated at the same address.
  class forgotten_on_error {
   public:
    explicit forgotten_on_error(step_graphs& graphs) : graphs_(graphs) {}

    ~forgotten_on_error() {
      if (std::uncaught_exceptions() > exceptions_before_)
        graphs_.clear();
    }

    forgotten_on_error(const forgotten_on_error&) = delete;
    forgotten_on_error& operator=(const forgotten_on_error&) = delete;

   private:
    step_graphs& graphs_;
    int exceptions_before_ = std::uncaught_exceptions();
  };

  /// @throws device_error, and exceptions of `work` that is not recorded. All graphs are forgotten then
  outcome run(const kernels::cuda::stream& on, const step_shape& shape, const piece& work);

  void clear();

  std::size_t num_graphs() const;

  std::uint64_t num_replays() const { return num_replays_; }

  /// Pieces that are no longer recorded.
  std::uint64_t num_refused() const { return num_refused_; }

 private:
  struct entry {
    std::optional<kernels::cuda::graph> recorded;
    outcome after;
    unsigned failures = 0;                        // failed recordings
    std::list<const step_shape*>::iterator place; // in order of use
  };

  void add(const step_shape& shape);

  std::size_t most_;
  std::map<step_shape, entry> entries_;
  std::list<const step_shape*> by_use_; // keys of `entries_`, the most recently used first
  std::uint64_t num_replays_ = 0;
  std::uint64_t num_refused_ = 0;
};

} // namespace troupe::model
