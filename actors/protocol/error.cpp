#include "actors/protocol/error.hpp"

#include <caf/atom.hpp>
#include <caf/exit_reason.hpp>
#include <caf/message.hpp>
#include <caf/sec.hpp>

namespace troupe {

namespace {

constexpr auto category = caf::atom("troupe");

} // namespace

std::string to_string(ec code) {
  switch (code) {
  case ec::none:
    return "none";
  case ec::overloaded:
    return "overloaded";
  case ec::not_ready:
    return "not_ready";
  case ec::not_hosted:
    return "not_hosted";
  case ec::bad_request:
    return "bad_request";
  case ec::context_exceeded:
    return "context_exceeded";
  case ec::deadline_exceeded:
    return "deadline_exceeded";
  case ec::peer_down:
    return "peer_down";
  case ec::cancelled:
    return "cancelled";
  case ec::stale_term:
    return "stale_term";
  case ec::incompatible:
    return "incompatible";
  case ec::engine_failed:
    return "engine_failed";
  case ec::shutting_down:
    return "shutting_down";
  case ec::model_broken:
    return "model_broken";
  }
  return "unknown_" + std::to_string(static_cast<unsigned>(code)); // from a newer peer
}

caf::error make_error(ec code, const std::string& text) {
  return {static_cast<std::uint8_t>(code), category, caf::make_message(text)};
}

ec code_of(const caf::error& error) {
  return error && error.category() == category ? static_cast<ec>(error.code()) : ec::none;
}

std::string text_of(const caf::error& error) {
  if (!error)
    return {};
  if (error.category() == category && error.context().match_elements<std::string>())
    return error.context().get_as<std::string>(0);
  return caf::to_string(error);
}

bool is_peer_down(const caf::error& error) {
  return error == caf::sec::request_receiver_down || error == caf::exit_reason::remote_link_unreachable
         || code_of(error) == ec::peer_down;
}

} // namespace troupe
