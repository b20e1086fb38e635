#include "actors/transport/fabric/poller.hpp"

#include <array>
#include <stdexcept>

#include <sys/epoll.h>

namespace troupe::wire {

namespace {

epoll_event event_for(poller::watch_id id, bool for_writing) {
  epoll_event result{};
  result.events = for_writing ? EPOLLIN | EPOLLOUT : EPOLLIN;
  result.data.u64 = id;
  return result;
}

} // namespace

poller::poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_)
    throw std::runtime_error("transport: epoll_create1 failed");
}

poller::watch_id poller::watch(int fd, bool for_writing, callback on_ready) {
  const auto id = next_id_++;
  auto event = event_for(id, for_writing);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw std::runtime_error("transport: epoll_ctl failed");
  entries_.emplace(id, std::make_shared<entry>(entry{fd, std::move(on_ready)}));
  return id;
}

void poller::change(watch_id id, bool for_writing) {
  const auto i = entries_.find(id);
  if (i == entries_.end())
    return;
  auto event = event_for(id, for_writing);
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, i->second->fd, &event);
}

void poller::forget(watch_id id) {
  const auto i = entries_.find(id);
  if (i == entries_.end())
    return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, i->second->fd, nullptr);
  entries_.erase(i);
}

void poller::wait(std::chrono::milliseconds timeout) {
  std::array<epoll_event, 32> events;
  const auto count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                static_cast<int>(timeout.count()));
  for (int i = 0; i < count; ++i) {
    // A copy, because epoll_event is packed and nothing may refer into it.
    const watch_id id = events[static_cast<std::size_t>(i)].data.u64;
    // Looked up one by one: an earlier callback may have forgotten this watch.
    const auto found = entries_.find(id);
    if (found == entries_.end())
      continue;
    const auto keep = found->second;
    keep->on_ready();
  }
}

} // namespace troupe::wire
