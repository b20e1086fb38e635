// Reads a streamed completion as its user sees it, with times.
#pragma once

#include <string>

#include "load/report.hpp"

namespace troupe::load {

/// Adds the events of one stream to its record.
class stream_reader {
 public:
  /// @param record      outlives the reader
  /// @param keeps_text  of the answer, in the record
  explicit stream_reader(request_record& record, bool keeps_text = false)
      : record_(record), keeps_text_(keeps_text) {}

  /// @param data     of an event
  /// @param seconds  since the request was sent
  void take(const std::string& data, double seconds);

  /// Whether the stream has announced its end.
  bool done() const { return done_; }

 private:
  request_record& record_;
  bool keeps_text_;
  double last_ = 0.0; ///< arrival of the last chunk with tokens
  bool begun_ = false;
  bool done_ = false;
};

} // namespace troupe::load
