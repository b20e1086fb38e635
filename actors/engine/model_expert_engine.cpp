#include "actors/engine/model_expert_engine.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/timeline/timeline.hpp"
#include "kernels/model/packed_expert.hpp"

namespace troupe {

namespace {

/// Rows of a step in the form of the backend: for each expert, pointers to its inputs and outputs in all
/// batches.
class gathered_rows {
 public:
  gathered_rows(const expert_step& step, std::vector<payload>& outputs, std::size_t row_bytes) {
    std::vector<std::byte*> bases;
    bases.reserve(outputs.size());
    for (auto& output : outputs)
      bases.push_back(output.mutable_data());
    std::size_t total = 0;
    for (const auto& work : step.work)
      total += work.rows.size();
    inputs_.reserve(total); // spans point into them, so they must not be reallocated
    outputs_.reserve(total);
    for (std::size_t i = 0; i < step.work.size();) {
      std::size_t first = inputs_.size();
      std::uint32_t expert = step.work[i].expert;
      for (; i < step.work.size() && step.work[i].expert == expert; ++i) {
        const auto& work = step.work[i];
        const std::byte* activations = step.batches[work.batch].activations.data();
        std::byte* out = bases[work.batch] + std::size_t{work.first_output} * row_bytes;
        for (std::uint32_t row : work.rows) {
          inputs_.push_back(activations + std::size_t{row} * row_bytes);
          outputs_.push_back(out);
          out += row_bytes;
        }
      }
      experts_.push_back({expert, std::span(inputs_).subspan(first), std::span(outputs_).subspan(first)});
    }
  }

  std::span<const model::expert_rows> experts() const { return experts_; }

 private:
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<model::expert_rows> experts_;
};

class loaded_image : public expert_image {
 public:
  explicit loaded_image(std::shared_ptr<const model::packed_expert> expert) : expert_(std::move(expert)) {}

  const std::string& layout() const override { return expert_->layout(); }

  std::uint64_t num_bytes() const override { return expert_->num_bytes(); }

  std::uint64_t checksum() const override { return expert_->checksum(); }

  void read(std::uint64_t offset, std::span<std::byte> out) const override { expert_->read(offset, out); }

 private:
  std::shared_ptr<const model::packed_expert> expert_;
};

/// Writes an arriving expert into the memory in which it will be used.
class backend_sink : public expert_sink {
 public:
  backend_sink(std::shared_ptr<const model::expert_backend> backend, std::uint32_t layer)
      : backend_(std::move(backend)), layer_(layer) {}

  std::string begin(const std::string& layout, std::uint64_t num_bytes) override {
    arrived_.reset(); // before the next one takes memory
    try {
      arrived_ = backend_->expect(layer_, layout);
    } catch (const std::exception& error) {
      return error.what();
    }
    if (arrived_->num_bytes() == num_bytes)
      return {};
    auto wanted = arrived_->num_bytes();
    arrived_.reset();
    return "the expert has " + std::to_string(num_bytes) + " bytes there, and takes " + std::to_string(wanted)
           + " here";
  }

  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    arrived_->write(offset, bytes);
  }

  std::uint64_t checksum() const override { return arrived_->checksum(); }

  std::unique_ptr<model::arriving_expert> take() { return std::move(arrived_); }

 private:
  std::shared_ptr<const model::expert_backend> backend_;
  std::uint32_t layer_;
  std::unique_ptr<model::arriving_expert> arrived_;
};

/// A load by a serving worker must not take processors from steps of its own or of other processes on the
/// host. Linux lets any thread lower its priority, but not raise it again: the first experts, for which
/// requests may be waiting, are loaded before this.
void yield_to_computing_threads() {
  constexpr int lowest = 19;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), lowest);
}

/// A fetch that the loading thread waits for. The fetcher may outlive the engine.
class awaited_fetch {
 public:
  void finish(std::string error) {
    std::lock_guard guard(mutex_);
    if (!error_) {
      error_ = std::move(error);
      finished_.notify_all();
    }
  }

  std::string wait() {
    std::unique_lock guard(mutex_);
    finished_.wait(guard, [this] { return error_.has_value(); });
    return *error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  std::optional<std::string> error_;
};

class model_expert_engine : public expert_engine {
 public:
  explicit model_expert_engine(model_expert_config config)
      : shape_(std::move(config.shape)),
        queue_(std::move(config.queue)),
        backend_(std::move(config.backend)),
        progress_(std::move(config.progress)),
        failed_(std::move(config.failed)),
        device_lost_(std::move(config.device_lost)),
        has_files_(config.has_files),
        loader_([this] { load_orders(); }) {}

  ~model_expert_engine() override {
    {
      std::lock_guard guard(mutex_);
      stopping_ = true;
      if (fetch_)
        fetch_->finish("the engine ends");
    }
    arrived_.notify_one();
    loader_.join();
  }

  model_expert_engine(const model_expert_engine&) = delete;
  model_expert_engine& operator=(const model_expert_engine&) = delete;

  const model_shape& shape() const override { return shape_; }

  std::uint64_t expert_bytes() const override {
    std::uint64_t largest = 0;
    for (std::size_t layer = 0; layer < shape_.layer_experts.size(); ++layer)
      largest = std::max<std::uint64_t>(largest, backend_->expert_bytes(layer));
    return largest;
  }

  void host(std::vector<expert_id> experts, expert_fetch fetch, expert_load_done done) override {
    {
      std::lock_guard guard(mutex_);
      orders_.push_back({std::move(experts), std::move(fetch), std::move(done)});
    }
    arrived_.notify_one();
  }

  std::shared_ptr<const expert_image> image(expert_id expert) const override {
    auto packed = backend_->packed(expert.layer, expert.index);
    return packed ? std::make_shared<const loaded_image>(std::move(packed)) : nullptr;
  }

  void submit(expert_step step, expert_done done) override {
    queue_->submit([backend = backend_, row_bytes = std::size_t{shape_.row_bytes}, step = std::move(step),
                    done = std::move(done),
                    device_lost = device_lost_] { done(compute(*backend, row_bytes, step, device_lost)); });
  }

 private:
  struct order {
    std::vector<expert_id> experts;
    expert_fetch fetch;
    expert_load_done done;
  };

  static void trace(const expert_step& step, std::chrono::steady_clock::time_point start,
                    std::uint64_t compute_ns) {
    timeline::event computed{.kind = timeline::event_kind::expert_step, .begin_ns = timeline::ns_of(start)};
    computed.id = step.trace;
    computed.duration_ns = compute_ns;
    std::uint64_t rows = 0;
    std::uint64_t experts = 0;
    for (std::size_t i = 0; i < step.work.size(); ++i) {
      rows += step.work[i].rows.size();
      experts += i == 0 || step.work[i].expert != step.work[i - 1].expert ? 1 : 0;
    }
    computed.args = {step.layer, step.batches.size(), rows, experts};
    timeline::record(computed);
  }

  static expert_step_result compute(model::expert_backend& backend, std::size_t row_bytes,
                                    const expert_step& step, const device_loss_report& device_lost) {
    expert_step_result result;
    auto start = std::chrono::steady_clock::now();
    try {
      for (const auto& batch : step.batches)
        result.outputs.push_back(payload::allocate(std::size_t{batch.num_outputs} * row_bytes));
      gathered_rows rows(step, result.outputs, row_bytes);
      if (auto missing = backend.forward(step.layer, rows.experts())) {
        result.outputs.clear();
        result.error =
            "layer " + std::to_string(step.layer) + ", expert " + std::to_string(*missing) + " is not loaded";
      }
    } catch (const std::exception& error) {
      result.outputs.clear();
      result.error = error.what();
      report_device_loss(error, device_lost);
    }
    result.compute_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - start).count());
    if (step.trace != 0)
      trace(step, start, result.compute_ns);
    return result;
  }

  void load_orders() {
    bool serves = false; // experts of an earlier order
    while (true) {
      order next;
      {
        std::unique_lock guard(mutex_);
        arrived_.wait(guard, [this] { return stopping_ || !orders_.empty(); });
        if (stopping_)
          return;
        next = std::move(orders_.front());
        orders_.pop_front();
      }
      expert_load_result result = carry_out(next);
      if (!serves && !result.hosted.empty()) {
        serves = true;
        yield_to_computing_threads();
      }
      next.done(std::move(result));
    }
  }

  expert_load_result carry_out(const order& wanted) {
    keep_only(wanted.experts);
    expert_load_result result;
    std::exception_ptr failure; // the first
    bool is_full = false;
    for (std::size_t i = 0; i < wanted.experts.size(); ++i) {
      expert_id id = wanted.experts[i];
      // If there is no memory for one expert, do not read and pack the others.
      if (is_full && !std::binary_search(hosted_.begin(), hosted_.end(), id))
        continue;
      try {
        load(id, wanted.fetch);
        result.hosted.push_back(id);
      } catch (const std::exception& error) {
        report_device_loss(error, device_lost_);
        is_full = is_full || is_out_of_memory(error);
        if (!failure) {
          failure = std::current_exception();
          result.error = "layer " + std::to_string(id.layer) + ", expert " + std::to_string(id.index) + ": "
                         + error.what();
        }
      }
      if (progress_)
        progress_(i + 1, wanted.experts.size());
      std::lock_guard guard(mutex_);
      if (stopping_)
        break;
    }
    std::sort(result.hosted.begin(), result.hosted.end());
    keep_only(result.hosted);
    hosted_ = result.hosted;
    report(failure, !result.hosted.empty());
    return result;
  }

  void load(expert_id id, const expert_fetch& fetch) {
    const auto begin_ns = timeline::is_on() ? timeline::now_ns() : 0;
    const bool was_fetched = load_from_anywhere(id, fetch);
    if (begin_ns == 0)
      return;
    timeline::event loaded{.kind = timeline::event_kind::weights_load, .begin_ns = begin_ns};
    loaded.id = timeline::packed(id.layer, id.index);
    loaded.duration_ns = timeline::now_ns() - begin_ns;
    loaded.args = {backend_->expert_bytes(id.layer), was_fetched ? 1U : 0U};
    timeline::record(loaded);
  }

  /// Loads from another worker, or else from files.
  /// @returns whether it came from another worker
  bool load_from_anywhere(expert_id id, const expert_fetch& fetch) {
    std::string error = "no worker that has it is known";
    if (fetch && backend_->packed(id.layer, id.index) == nullptr) {
      auto sink = std::make_shared<backend_sink>(backend_, id.layer);
      error = run(fetch, id, sink);
      if (error.empty()) {
        backend_->take(id.layer, id.index, sink->take());
        return true;
      }
    }
    if (!has_files_ && backend_->packed(id.layer, id.index) == nullptr)
      throw std::runtime_error("it cannot be fetched, and there are no files: " + error);
    backend_->load(id.layer, id.index);
    return false;
  }

  std::string run(const expert_fetch& fetch, expert_id id, const std::shared_ptr<backend_sink>& sink) {
    auto awaited = std::make_shared<awaited_fetch>();
    {
      std::lock_guard guard(mutex_);
      if (stopping_)
        return "the engine ends";
      fetch_ = awaited;
    }
    fetch(id, sink, [awaited](std::string error) { awaited->finish(std::move(error)); });
    auto error = awaited->wait();
    std::lock_guard guard(mutex_);
    fetch_ = nullptr;
    return error;
  }

  void keep_only(std::vector<expert_id> experts) {
    std::sort(experts.begin(), experts.end());
    for (std::uint32_t layer = 0; layer < shape_.layer_experts.size(); ++layer) {
      for (std::uint32_t index = 0; index < shape_.layer_experts[layer]; ++index)
        if (!std::binary_search(experts.begin(), experts.end(), expert_id{layer, index}))
          backend_->unload(layer, index);
    }
  }

  void report(const std::exception_ptr& failure, bool has_any) {
    if (!failure || !failed_)
      return;
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      failed_(error, has_any);
    }
  }

  model_shape shape_;
  std::shared_ptr<compute_queue> queue_; // its context outlives the backend
  std::shared_ptr<model::expert_backend> backend_;
  std::function<void(std::size_t, std::size_t)> progress_;
  std::function<void(const std::exception&, bool)> failed_;
  device_loss_report device_lost_;
  bool has_files_;
  std::vector<expert_id> hosted_; // after the last order, ascending; used by the loading thread alone
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<order> orders_;
  std::shared_ptr<awaited_fetch> fetch_; // the running fetch; may be null
  bool stopping_ = false;
  std::thread loader_; // last: uses all members above
};

} // namespace

std::shared_ptr<expert_engine> make_model_expert_engine(model_expert_config config) {
  return std::make_shared<model_expert_engine>(std::move(config));
}

} // namespace troupe
