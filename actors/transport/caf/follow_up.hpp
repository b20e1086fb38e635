// What an actor leaves to the thread that runs it: work that no other thread has to be woken for.
#pragma once

#include <functional>
#include <utility>

namespace troupe {

/// While it lives, its thread takes such work: it runs the deferred work after all woken actors have
/// returned. Only threads have one that may be away for a while.
class follow_up {
 public:
  using work = std::function<void()>;

  /// Becomes the one of the calling thread, which has none yet.
  follow_up();

  ~follow_up();
  follow_up(const follow_up&) = delete;
  follow_up& operator=(const follow_up&) = delete;

  /// @returns null where there is none
  static follow_up* of_this_thread();

  /// There is room for one piece of work.
  bool is_free() const { return !left_; }

  /// @pre is_free()
  void leave(work what) { left_ = std::move(what); }

  /// Takes the step that was left; empty if none was. The caller runs it, on this thread.
  work take() { return std::exchange(left_, {}); }

 private:
  work left_;
};

} // namespace troupe
