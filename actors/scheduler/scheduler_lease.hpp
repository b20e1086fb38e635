// The right to be the scheduler of a state directory, and the term that goes with it.
//
// A term is a file `lease.<term>`, made by its holder and by nobody else, since a link to a name that exists
// fails. So no term is taken twice, and whoever has the highest one is the scheduler. The holder has the file
// locked from before others can see it until its process ends, and touches it every
// defaults::scheduler_lease_interval. Its standby takes the next term when the lock is gone, which on the
// same machine is the end of the process, or when the file has not been touched for
// defaults::scheduler_lease: that is a process that is stopped, or a machine that is lost. A holder that
// wakes up finds a higher term, and ends.
//
// Nothing here depends on clocks of two machines: who watches measures by its own for how long a time stamp
// stays as it is. Everything blocks for as long as the file system likes: not for actors of the pool.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// Whose a lease is.
struct lease_holder {
  uint64_t term = 0;
  std::string name; ///< "scheduler-0"; empty when the file cannot be read
  int64_t pid = 0;
  std::string host;
  std::string boot; ///< the id of one run of one machine's kernel, whose locks end with their processes
  bool operator==(const lease_holder&) const = default;
};

/// "'scheduler-0', process 12 on host-a".
std::string described(const lease_holder& holder);

/// The highest term that a lease of this directory has; 0: none.
/// @errors throws `std::runtime_error`
uint64_t newest_leased_term(const std::string& directory);

/// A lease that this process holds, until this object goes.
class scheduler_lease {
 public:
  ~scheduler_lease();
  scheduler_lease(const scheduler_lease&) = delete;
  scheduler_lease& operator=(const scheduler_lease&) = delete;

  uint64_t term() const { return self_.term; }

  /// Tells those who watch that the holder lives.
  /// @returns who has taken over, if anybody has
  /// @errors throws `std::runtime_error`: those who watch may not have been told
  std::optional<lease_holder> renew();

  /// Takes the term above this one, if it has not a higher one already. Durable on return.
  /// @returns who has taken over, if anybody has
  /// @errors throws `std::runtime_error`: the term is what it was
  std::optional<lease_holder> raise(uint64_t above);

 private:
  friend class lease_watch;
  struct locked_file;

  scheduler_lease(std::string directory, lease_holder self, std::unique_ptr<locked_file> file);

  std::string directory_;
  lease_holder self_;
  std::unique_ptr<locked_file> file_;
};

/// Watches a directory, and takes its lease when nobody alive holds it.
class lease_watch {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  /// A term that the lease must exceed, by what else is stored.
  using known_term = std::function<uint64_t()>;

  /// @param name  of this scheduler, for others to read
  lease_watch(std::string directory, const std::string& name);

  /// One look.
  /// @param known  called when the lease can be taken
  /// @returns the lease, in a term that is durable and that nobody else has had
  /// @errors throws `std::runtime_error`: a file system without locks or links, and others; says what to do
  std::unique_ptr<scheduler_lease> look(time_point now, const known_term& known);

  /// As of the last look.
  const std::optional<lease_holder>& holder() const { return holder_; }

  /// Has the holder been seen to renew?
  bool is_alive() const { return is_alive_; }

 private:
  std::string directory_;
  lease_holder self_;
  std::optional<lease_holder> holder_;
  std::pair<int64_t, int64_t> touched_; // the time stamp of the holder's file: s, ns
  time_point unchanged_since_;
  bool is_alive_ = false;
};

} // namespace troupe
