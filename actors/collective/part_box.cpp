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

void part_box::put(collective_part part) {
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

payload part_box::take(std::size_t rank, const std::string& operation,
                       std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  auto& from = peers_.at(rank);
  const auto is_decided = [&] { return broken_ || from.lost || from.parts.contains(exchange_); };
  const bool in_time = changed_.wait_until(lock, deadline, is_decided);
  if (broken_)
    fail_locked();
  auto found = from.parts.extract(exchange_);
  if (!found) {
    // What a rank sent before it went is used: it may have been done first.
    break_up_locked(in_time ? name_of(rank) + " is gone: " + *from.lost
                            : name_of(rank) + " has sent nothing for " + operation + " in time");
    fail_locked();
  }
  auto& part = found.mapped();
  if (part.operation != operation) {
    break_up_locked(name_of(rank) + " does " + part.operation + " where this rank does " + operation);
    fail_locked();
  }
  return std::move(part.bytes);
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
