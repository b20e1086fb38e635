// Which messages travel in the bulk lane of the transport.
#pragma once

#include <caf/fwd.hpp>

namespace troupe {

/// Whether `content` is large and can wait, so that all other messages to the same process overtake it:
/// weights, histories, whole status pages. `weights_read` travels as bulk, too: as an urgent message it would
/// pause the very transfer that it asks for. Overtaking is harmless: each is a question or an answer on its
/// own, or numbers its content.
///
/// Not bulk, however large: whole views (they precede their changes), requests to generate (they precede
/// their cancellation), expert batches and their results (tokens wait for them).
bool is_bulk(const caf::message& content);

} // namespace troupe
