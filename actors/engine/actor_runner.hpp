// Runs the actors that wait for what a thread computes on that thread: a result costs its actor some
// microseconds, and to wake another thread for it several times as many.
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

/// While it lives, results that its thread posts with `post_result` wake nobody: the actor runs at once, on
/// this thread, and so do those of its kind that it wakes, such as the expert host of the same process.
/// Whoever else becomes ready, sessions for example, goes to the scheduler.
///
/// Actors may end here. So what an actor owns must be able to end on this thread, and its actor system waits
/// for it.
class actor_runner : public caf::execution_unit {
 public:
  /// Becomes the runner of the calling thread, which has none yet.
  actor_runner();

  ~actor_runner() override;
  actor_runner(const actor_runner&) = delete;
  actor_runner& operator=(const actor_runner&) = delete;

  /// @returns null where there is none
  static actor_runner* of_this_thread();

  /// Sends `content` and runs `to` over a bounded number of messages, unless another thread does so already
  /// and will find it. Called while an actor runs here, it leaves that to the outer call.
  void deliver(const caf::strong_actor_ptr& to, caf::message content);

  /// Called by CAF: `job` is ready.
  void exec_later(caf::resumable* job) override;

 private:
  void run(caf::resumable* job);

  std::vector<caf::resumable*> ready_;
  /// Actors served here, by address; a reused address merely runs another actor here.
  std::vector<caf::resumable*> own_;
  bool delivering_ = false;
  bool running_ = false;
};

/// Posts what an engine reports; does nothing once the actor is gone. @threads any
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
