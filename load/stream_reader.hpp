// Follows a streamed completion: what its user saw, and when.
#pragma once

#include <string>

#include "load/report.hpp"

namespace troupe::load {

/// Takes the events of one stream into its record.
class stream_reader {
 public:
  /// @param record      outlives the reader
  /// @param keeps_text  in the record
  explicit stream_reader(request_record& record, bool keeps_text = false)
      : record_(record), keeps_text_(keeps_text) {}

  /// @param data     of an event
  /// @param seconds  since the request was sent
  void take(const std::string& data, double seconds);

  /// The stream has said that it is complete.
  bool done() const { return done_; }

 private:
  request_record& record_;
  bool keeps_text_;
  double last_ = 0.0; ///< when the last chunk came that carried tokens
  bool begun_ = false;
  bool done_ = false;
};

} // namespace troupe::load
