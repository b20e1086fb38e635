// Runs the actors that wait for a result on the thread that computed it: handling a result takes an actor
// some microseconds, and waking another thread takes several times as long.
#pragma once

#include <utility>
#include <vector>

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <caf/execution_unit.hpp>
#include <caf/fwd.hpp>
#include <caf/message.hpp>
#include <caf/send.hpp>

namespace troupe {

/// While it lives, results that its thread posts with `post_result` wake no other thread: the receiving actor
/// runs at once, on this thread. So do other actors that receive results, such as the expert host of the same
/// process. All other actors that become ready, such as sessions, go to CAF's scheduler.
///
/// Actors may end on this thread, and what they own with them; their actor system waits for that.
class actor_runner : public caf::execution_unit {
 public:
  /// Becomes the runner of the calling thread, which must not have one.
  actor_runner();

  ~actor_runner() override;
  actor_runner(const actor_runner&) = delete;
  actor_runner& operator=(const actor_runner&) = delete;

  /// @returns null if the thread has none
  static actor_runner* of_this_thread();

  /// Sends `content` and runs `to` for a bounded number of messages. If another thread already runs `to`,
  /// that thread handles the message. If an actor runs here, the outer call runs `to`.
  void deliver(const caf::strong_actor_ptr& to, caf::message content);

  /// Called by CAF: `job` is ready.
  void exec_later(caf::resumable* job) override;

 private:
  void run(caf::resumable* job);

  std::vector<caf::resumable*> ready_;
  /// Actors that run here, by address. A reused address only means that another actor runs here.
  std::vector<caf::resumable*> own_;
  bool delivering_ = false;
  bool running_ = false;
};

/// Posts the result of an engine; does nothing if the actor has ended. @threads any
template <class Handle, class Message>
void post_result(const caf::weak_actor_ptr& to, Message message) {
  const auto strong = caf::actor_cast<caf::strong_actor_ptr>(to);
  if (!strong)
    return;
  if (auto* runner = actor_runner::of_this_thread())
    runner->deliver(strong, caf::make_message(std::move(message)));
  else
    caf::anon_send(caf::actor_cast<Handle>(strong), std::move(message));
}

} // namespace troupe
