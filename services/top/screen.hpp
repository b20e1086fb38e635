// The lines that `troupe top` shows.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "services/top/overview.hpp"

namespace troupe::top {

struct screen_size {
  std::size_t columns = 0; ///< 0: lines are not cut
  std::size_t rows = 0;    ///< 0: as many as there are
};

/// What stands above the figures.
struct heading {
  std::string url;
  std::chrono::duration<double> interval{0}; ///< that the figures are of
  std::string trouble;                       ///< why there is nothing newer; empty: there is
};

/// Lines of at most so many columns, printable whatever the names of workers are, and not more of them than
/// there are rows: then the last one says how many workers are left out.
std::vector<std::string> screen_lines(const heading& about, const overview& figures, screen_size size);

/// While there is nothing to show.
std::vector<std::string> screen_lines(const heading& about, screen_size size);

/// "950 us", "12.3 ms", "4.56 s"; "-" for nothing.
std::string duration_text(const std::optional<double>& seconds);

} // namespace troupe::top
