// A terminal that shows one screen after another, and is afterwards as it was.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <termios.h>

#include "services/top/screen.hpp"

namespace troupe::top {

/// While it lives, standard output shows its screens instead of what was there, keys are read as they are
/// pressed, and neither is echoed nor waits for the end of a line.
class terminal {
 public:
  /// @throws std::system_error where standard output is no terminal
  terminal();
  /// Gives the terminal back.
  ~terminal();
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;

  /// Gives it back until `enter`: for a stop by Ctrl-Z. Without effect where it has been given back.
  void leave() noexcept;
  /// Takes it again, also where somebody else has changed it since it was taken: a shell sets its own modes
  /// when the process is stopped.
  void enter();

  /// Size of the window now; 80 x 24 if it is unknown.
  screen_size size() const;

  /// Replaces what is shown. The first line stands out. Without effect between `leave` and `enter`.
  void show(const std::vector<std::string>& lines);

  /// A descriptor of its own that keys can be read from without blocking; -1: there is none.
  int keys() const noexcept { return keys_; }

 private:
  std::optional<termios> before_; ///< of the keys' terminal
  bool is_shown_ = false;
  int keys_ = -1;
};

} // namespace troupe::top
