#include "actors/collective/transport_collective.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/collective/collective_messages.hpp"
#include "actors/collective/part_box.hpp"
#include "actors/protocol/error.hpp"
#include "kernels/bfloat16.hpp"

namespace troupe {

namespace {

using std::chrono::steady_clock;

/// The MEMBER interface: a rank's mailbox.
using collective_member = caf::typed_actor<
    // Another rank's part of an exchange.
    caf::reacts_to<collective_part>,
    // A rank is gone, and why (local only). By the same mailbox as parts: what a rank sent before it went is
    // used.
    caf::reacts_to<caf::close_atom, std::uint32_t, std::string>>;

collective_member::behavior_type member(const std::shared_ptr<part_box>& box) {
  return {[box](collective_part& part) { box->put(std::move(part)); },
          [box](caf::close_atom, std::uint32_t rank, const std::string& why) { box->lose(rank, why); }};
}

/// Tells the mailbox which ranks end.
/// @param peers  [num_ranks], null for this rank
caf::behavior watch(caf::event_based_actor* self, const collective_member& mailbox,
                    const std::vector<caf::strong_actor_ptr>& peers) {
  for (const auto& peer : peers)
    if (peer)
      self->monitor(caf::actor_cast<caf::actor>(peer));
  self->set_down_handler([mailbox, peers](const caf::down_msg& down) {
    for (std::size_t r = 0; r < peers.size(); ++r)
      if (peers[r] && peers[r]->address() == down.source)
        caf::anon_send(mailbox, caf::close_atom_v, static_cast<std::uint32_t>(r),
                       caf::to_string(down.reason));
  });
  return {[](caf::ok_atom) {}};
}

std::string service_name(const std::string& group, std::size_t rank) {
  return "collective/" + group + "/" + std::to_string(rank);
}

/// Larger operations are cut, so that a rank's parts of two exchanges fit the transport's window.
constexpr std::size_t most_part_bytes = std::size_t{16} << 20;

/// A peer that has not published itself yet is asked again so soon.
constexpr std::chrono::milliseconds ask_again{20};

float as_float(float value) {
  return value;
}

float as_float(kernels::bfloat16 value) {
  return kernels::to_float(value);
}

template <class T>
T rounded(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return kernels::to_bfloat16(value);
}

class transport_collective final : public kernels::collective {
 public:
  transport_collective(caf::actor_system& system, transport& net, const collective_config& config)
      : net_(net),
        config_(config),
        service_(service_name(config.group, config.rank)),
        box_(std::make_shared<part_box>(config.rank, config.endpoints.size())),
        member_(system.spawn(member, box_)) {
    net_.publish(service_, member_);
    try {
      find_peers(system);
    } catch (...) {
      leave();
      throw;
    }
    watch_ = system.spawn(watch, member_, peers_);
  }

  ~transport_collective() override { leave(); }

  transport_collective(const transport_collective&) = delete;
  transport_collective& operator=(const transport_collective&) = delete;

  std::size_t rank() const override { return config_.rank; }

  std::size_t num_ranks() const override { return config_.endpoints.size(); }

  void all_reduce(void* values, std::size_t count, kernels::dtype type) override {
    if (type == kernels::dtype::f32)
      reduce(static_cast<float*>(values), count, type);
    else if (type == kernels::dtype::bf16)
      reduce(static_cast<kernels::bfloat16*>(values), count, type);
    else
      throw std::invalid_argument("collective: sums of f32 and bf16 only");
  }

  void all_gather(const std::byte* mine, std::size_t num_bytes, std::byte* all) override {
    in_pieces(num_bytes, [&](std::size_t begin, std::size_t length) {
      auto part = payload::copy_of({mine + begin, length});
      const auto parts =
          exchange(operation("all_gather", num_bytes, begin), [&](std::size_t) { return part; });
      for (std::size_t r = 0; r < parts.size(); ++r)
        copy(parts[r], length, all + r * num_bytes + begin);
    });
  }

  void broadcast(std::byte* data, std::size_t num_bytes, std::size_t root) override {
    if (root >= num_ranks())
      throw std::invalid_argument("collective: a broadcast from a rank that the group does not have");
    const auto name = "broadcast from rank " + std::to_string(root);
    in_pieces(num_bytes, [&](std::size_t begin, std::size_t length) {
      auto part = rank() == root ? payload::copy_of({data + begin, length}) : payload{};
      const auto parts = exchange(operation(name, num_bytes, begin), [&](std::size_t) { return part; });
      copy(parts[root], length, data + begin);
    });
  }

  void all_to_all(const std::byte* mine, std::size_t num_bytes, std::byte* all) override {
    in_pieces(num_bytes, [&](std::size_t begin, std::size_t length) {
      const auto parts = exchange(operation("all_to_all", num_bytes, begin), [&](std::size_t to) {
        return payload::copy_of({mine + to * num_bytes + begin, length});
      });
      for (std::size_t r = 0; r < parts.size(); ++r)
        copy(parts[r], length, all + r * num_bytes + begin);
    });
  }

  void wait() override { box_->expect_whole(); }

 private:
  void find_peers(caf::actor_system& system) {
    const auto deadline = steady_clock::now() + config_.join_timeout;
    caf::scoped_actor self{system};
    peers_.resize(num_ranks());
    for (std::size_t r = 0; r < num_ranks(); ++r) {
      if (r == rank())
        continue;
      std::string why = "nobody answers";
      while (!peers_[r]) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
        if (left.count() <= 0)
          throw kernels::collective_error("collective " + config_.group + ", rank " + std::to_string(rank())
                                          + ": rank " + std::to_string(r) + " at " + config_.endpoints[r]
                                          + " has not joined in time: " + why);
        self->request(net_.actor(), left, caf::resolve_atom_v, config_.endpoints[r],
                      service_name(config_.group, r), caf::timespan{left})
            .receive([&](caf::strong_actor_ptr& found) { peers_[r] = std::move(found); },
                     [&](const caf::error& error) { why = text_of(error); });
        if (!peers_[r])
          std::this_thread::sleep_for(ask_again); // it may not run yet, and there is no signal when it does
      }
    }
  }

  void leave() {
    net_.unpublish(service_);
    if (watch_)
      caf::anon_send_exit(watch_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(member_, caf::exit_reason::user_shutdown);
  }

  static std::string operation(const std::string& name, std::size_t size, std::size_t begin) {
    return name + " of " + std::to_string(size) + " from " + std::to_string(begin);
  }

  template <class Work>
  static void in_pieces(std::size_t size, const Work& work) {
    std::size_t begin = 0;
    do { // of nothing, too: ranks have to agree that it is nothing
      const auto length = std::min(size - begin, most_part_bytes);
      work(begin, length);
      begin += length;
    } while (begin < size);
  }

  /// Sends every other rank its part, and waits for theirs.
  /// @param part_for  rank → payload
  /// @returns [num_ranks], this rank's own part among them
  template <class PartFor>
  std::vector<payload> exchange(const std::string& name, const PartFor& part_for) {
    const auto deadline = steady_clock::now() + config_.exchange_timeout;
    const auto number = exchanges_++;
    try {
      box_->begin(number);
      payload own;
      for (std::size_t step = 0; step < num_ranks(); ++step) {
        const auto to = (rank() + step) % num_ranks(); // not all to one at a time
        auto part = part_for(to);
        if (to == rank())
          own = std::move(part);
        else
          caf::anon_send(caf::actor_cast<caf::actor>(peers_[to]),
                         collective_part{static_cast<std::uint32_t>(rank()), number, name, std::move(part)});
      }
      auto parts = box_->take(name, deadline);
      parts[rank()] = std::move(own);
      return parts;
    } catch (...) {
      box_->break_up("an exchange broke off"); // unless there is a reason already
      leave();                                 // tells the ranks that wait for this one
      throw;
    }
  }

  void expect_size(const payload& part, std::size_t num_bytes) {
    if (part.size() == num_bytes)
      return;
    box_->break_up("a part has " + std::to_string(part.size()) + " bytes, not " + std::to_string(num_bytes));
    leave();
    box_->expect_whole(); // throws
  }

  void copy(const payload& part, std::size_t num_bytes, std::byte* to) {
    expect_size(part, num_bytes);
    if (num_bytes > 0)
      std::memcpy(to, part.data(), num_bytes);
  }

  template <class T>
  void reduce(T* values, std::size_t count, kernels::dtype type) {
    const auto most = most_part_bytes / sizeof(T);
    const auto name = std::string("all_reduce ") + name_of(type);
    for (std::size_t begin = 0;; begin += most) {
      reduce_piece(values + begin, std::min(count - begin, most), operation(name, count, begin));
      if (count - begin <= most)
        return;
    }
  }

  template <class T>
  void reduce_piece(T* values, std::size_t count, const std::string& name) {
    const auto begin_of = [&](std::size_t slice) { return count * slice / num_ranks(); };
    const auto slice_of = [&](std::size_t slice) {
      return std::as_bytes(std::span(values + begin_of(slice), values + begin_of(slice + 1)));
    };
    const auto slices =
        exchange(name + ", slices", [&](std::size_t to) { return payload::copy_of(slice_of(to)); });
    const auto mine = slice_of(rank());
    auto sum = payload::allocate(mine.size());
    auto* sums = reinterpret_cast<T*>(sum.mutable_data());
    for (const auto& slice : slices)
      expect_size(slice, mine.size());
    for (std::size_t i = 0; i < mine.size() / sizeof(T); ++i) {
      float total = as_float(reinterpret_cast<const T*>(slices[0].data())[i]);
      for (std::size_t r = 1; r < slices.size(); ++r)
        total += as_float(reinterpret_cast<const T*>(slices[r].data())[i]);
      sums[i] = rounded<T>(total);
    }
    const auto all = exchange(name + ", sums", [&](std::size_t) { return sum; });
    for (std::size_t r = 0; r < all.size(); ++r)
      copy(all[r], slice_of(r).size(), reinterpret_cast<std::byte*>(values + begin_of(r)));
  }

  transport& net_;
  collective_config config_;
  std::string service_;
  std::shared_ptr<part_box> box_;
  collective_member member_;
  caf::actor watch_;
  std::vector<caf::strong_actor_ptr> peers_; // [num_ranks], null for this rank
  std::uint64_t exchanges_ = 0;
};

} // namespace

void configure_collectives(caf::actor_system_config& config) {
  config.add_message_types<caf::id_block::troupe_collective>();
}

std::unique_ptr<kernels::collective> join_collective(caf::actor_system& system, transport& net,
                                                     const collective_config& config) {
  if (config.rank >= config.endpoints.size())
    throw std::invalid_argument("collective " + config.group + ": there are "
                                + std::to_string(config.endpoints.size()) + " ranks, and rank "
                                + std::to_string(config.rank) + " is none of them");
  return std::make_unique<transport_collective>(system, net, config);
}

} // namespace troupe
