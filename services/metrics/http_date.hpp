// The time in HTTP's format.
#pragma once

#include <cstdio>
#include <ctime>
#include <string>

namespace troupe::metrics {

/// For the Date header: "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, section 5.6.7), in any locale.
inline std::string http_date(std::time_t now = std::time(nullptr)) {
  static constexpr const char* days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[utc.tm_wday], utc.tm_mday,
                months[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return text;
}

} // namespace troupe::metrics
