// Which messages travel in the bulk lane of the transport.
#pragma once

#include <caf/fwd.hpp>

namespace troupe {

/// Whether `content` is large and can wait, so that all other messages to the same process overtake it:
/// weights, histories, whole status pages; and the questions for weights, because bulk makes way for urgent
/// messages and would for these. Each is a question or an answer on its own, or counts what it holds by
/// sequence numbers: to its receiver it does not matter what overtakes it.
///
/// Not among them, however large: whole views, which must come before the changes to them; requests to
/// generate, which must come before their cancellation; expert batches and their results, on which tokens
/// wait.
bool is_bulk(const caf::message& content);

} // namespace troupe
