#include "actors/collective/part_box.hpp"

#include <utility>

#include "kernels/collective.hpp"

namespace troupe {

namespace {

std::string name_of(std::size_t rank) {
  return "rank " + std::to_string(rank);
}

} // namespace

part_box::part_box(std::size_t rank, std::size_t num_ranks) : rank_(rank), peers_(num_ranks) {}

void part_box::put(collective_part&& part) {
  const std::lock_guard lock(mutex_);
  if (part.rank >= peers_.size() || part.rank == rank_)
    return break_up_locked("a part came from " + name_of(part.rank)
                           + ", which is no other rank of this group");
  if (part.exchange < exchange_ || part.exchange > exchange_ + 1)
    return break_up_locked(name_of(part.rank) + " sent its part of exchange " + std::to_string(part.exchange)
                           + ", and exchange " + std::to_string(exchange_) + " is under way here");
  auto& parts = peers_[part.rank].parts;
  const auto exchange = part.exchange;
  const auto rank = part.rank;
  if (!parts.try_emplace(exchange, std::move(part)).second)
    return break_up_locked(name_of(rank) + " sent its part of exchange " + std::to_string(exchange)
                           + " twice");
  changed_.notify_all();
}

void part_box::lose(std::size_t rank, const std::string& why) {
  const std::lock_guard lock(mutex_);
  peers_.at(rank).lost = why;
  changed_.notify_all();
}

void part_box::begin(std::uint64_t exchange) {
  const std::lock_guard lock(mutex_);
  if (broken_)
    fail_locked();
  exchange_ = exchange;
}

std::vector<payload> part_box::take(const std::string& operation,
                                    std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto none = peers_.size();
  changed_.wait_until(lock, deadline,
                      [&] { return broken_ || gone_locked() != none || missing_locked() == none; });
  if (const auto gone = gone_locked(); gone != none)
    break_up_locked(name_of(gone) + " is gone: " + *peers_[gone].lost);
  else if (const auto missing = missing_locked(); missing != none)
    break_up_locked(name_of(missing) + " has sent nothing for " + operation + " in time");
  std::vector<payload> result(peers_.size());
  for (std::size_t r = 0; r < peers_.size() && !broken_; ++r) {
    if (r == rank_)
      continue;
    auto part = std::move(peers_[r].parts.extract(exchange_).mapped());
    if (part.operation != operation)
      break_up_locked(name_of(r) + " does " + part.operation + " where this rank does " + operation);
    result[r] = std::move(part.bytes);
  }
  if (broken_)
    fail_locked();
  return result;
}

std::size_t part_box::gone_locked() const {
  std::size_t r = 0;
  while (r < peers_.size() && (!peers_[r].lost || peers_[r].parts.contains(exchange_)))
    ++r;
  return r;
}

std::size_t part_box::missing_locked() const {
  std::size_t r = 0;
  while (r < peers_.size() && (r == rank_ || peers_[r].parts.contains(exchange_)))
    ++r;
  return r;
}

void part_box::break_up(const std::string& why) {
  const std::lock_guard lock(mutex_);
  break_up_locked(why);
}

void part_box::expect_whole() const {
  const std::lock_guard lock(mutex_);
  if (broken_)
    fail_locked();
}

void part_box::break_up_locked(const std::string& why) {
  if (!broken_)
    broken_ = why;
  changed_.notify_all();
}

void part_box::fail_locked() const {
  throw kernels::collective_error("collective of " + std::to_string(peers_.size()) + " ranks, rank "
                                  + std::to_string(rank_) + ": " + *broken_);
}

} // namespace troupe
