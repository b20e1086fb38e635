#include "services/top/terminal.hpp"

#include <cerrno>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace troupe::top {

namespace {

// Control sequences of ECMA-48 and xterm: the alternate screen without a cursor, and back.
constexpr std::string_view enter_screen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view leave_screen = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view top_left = "\x1b[H";
constexpr std::string_view inverse = "\x1b[7m";
constexpr std::string_view plain = "\x1b[0m";
constexpr std::string_view clear_line = "\x1b[K";
constexpr std::string_view clear_rest = "\x1b[J";

void write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR)
      return; // the terminal has gone; SIGHUP says so, too
    bytes.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
}

/// A signal may interrupt it, such as the SIGCONT behind a stop.
void set_modes(int fd, const termios& modes) noexcept {
  while (::tcsetattr(fd, TCSADRAIN, &modes) != 0 && errno == EINTR) {
  }
}

} // namespace

// A description of its own: what is set on it, such as not to block, is not set on the shell's.
terminal::terminal() : keys_(::open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY)) {
  if (::isatty(STDOUT_FILENO) == 0)
    throw std::system_error(ENOTTY, std::generic_category(), "standard output");
  enter();
}

terminal::~terminal() {
  leave();
  if (keys_ >= 0)
    ::close(keys_);
}

void terminal::enter() {
  termios now{};
  if (keys_ >= 0 && !before_ && ::tcgetattr(keys_, &now) == 0)
    before_ = now; // else it was never left: what is set now may be our own
  if (before_) {
    now = *before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    now.c_iflag &= ~static_cast<tcflag_t>(IXON); // Ctrl-S would stop the output for good
    set_modes(keys_, now); // in the background: stops here (SIGTTOU) until it is in the foreground
  }
  write_all(enter_screen);
  is_shown_ = true;
}

void terminal::leave() noexcept {
  if (!is_shown_)
    return;
  is_shown_ = false;
  write_all(leave_screen);
  if (before_) {
    set_modes(keys_, *before_);
    before_.reset();
  }
}

screen_size terminal::size() const {
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0)
    return {80, 24};
  return {window.ws_col, window.ws_row};
}

void terminal::show(const std::vector<std::string>& lines) {
  if (!is_shown_)
    return;
  std::string bytes(top_left);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // Before the text: behind a full line it would clear the last column.
    bytes += i == 0 ? "" : "\r\n";
    bytes += clear_line;
    bytes += i == 0 ? inverse : "";
    bytes += lines[i];
    bytes += i == 0 ? plain : "";
  }
  if (lines.size() < size().rows) {
    bytes += "\r\n";
    bytes += clear_rest;
  }
  write_all(bytes);
}

} // namespace troupe::top
