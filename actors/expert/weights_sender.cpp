#include "actors/expert/weights_sender.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/expert/expert_host_metrics.hpp"
#include "actors/protocol/error.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

using time_point = caf::actor_clock::time_point;

/// An expert that is sent to one reader.
struct open_fetch {
  expert_id expert;
  std::shared_ptr<const expert_image> image;
  std::uint64_t checksum = 0;
  time_point used;
};

struct weights_sender_state {
  static inline const char* name = "weights_sender";

  weights_sender_config config;
  std::map<std::pair<worker_id, std::uint64_t>, open_fetch> open; ///< by reader and the number of its fetch
  bool ticks = false;
};

using sender_pointer = weights_sender_actor::stateful_pointer<weights_sender_state>;

std::string name_of(expert_id id) {
  return "expert " + std::to_string(id.index) + " of layer " + std::to_string(id.layer);
}

void forget_idle(sender_pointer self) {
  const auto now = self->clock().now();
  std::erase_if(self->state.open,
                [now](const auto& entry) { return now - entry.second.used >= defaults::weights_idle; });
}

/// A reader has one fetch at a time: the first chunk of a fetch ends the one before.
caf::result<weights_chunk> read(sender_pointer self, const weights_read& what) {
  auto& state = self->state;
  const auto& shape = state.config.engine->shape();
  if (what.fingerprint != shape.fingerprint)
    return make_error(ec::incompatible, "weights of the model '" + shape.fingerprint
                                            + "' are here, and asked for are those of '" + what.fingerprint
                                            + "'");
  if (what.numerics_class != shape.numerics_class)
    return make_error(ec::incompatible, "weights of the numerics class '" + shape.numerics_class
                                            + "' are here, and asked for is '" + what.numerics_class + "'");
  const std::pair key{what.reader, what.fetch};
  timeline::span sending(timeline::event_kind::weights_sent,
                         timeline::packed(what.expert.layer, what.expert.index), timeline::is_on());
  auto found = state.open.find(key);
  if (found == state.open.end()) {
    forget_idle(self);
    std::erase_if(state.open, [&](const auto& entry) { return entry.first.first == what.reader; });
    if (state.open.size() >= state.config.max_fetches)
      return make_error(ec::overloaded,
                        std::to_string(state.open.size()) + " experts are being sent, and no more may be");
    auto image = state.config.engine->image(what.expert);
    if (!image)
      return make_error(ec::not_hosted, name_of(what.expert) + " is not loaded here");
    const auto checksum = image->checksum();
    found = state.open.emplace(key, open_fetch{what.expert, std::move(image), checksum, {}}).first;
    if (!std::exchange(state.ticks, true))
      self->delayed_send(self, defaults::weights_idle, caf::tick_atom_v);
  }
  auto& fetch = found->second;
  const auto num_bytes = fetch.image->num_bytes();
  if (fetch.expert != what.expert || what.offset >= num_bytes || what.max_bytes == 0) {
    state.open.erase(found);
    return make_error(ec::bad_request, name_of(what.expert) + " has no bytes from "
                                           + std::to_string(what.offset)
                                           + " on, or the fetch is of another expert");
  }
  const auto length =
      std::min<std::uint64_t>({what.max_bytes, state.config.max_chunk_bytes, num_bytes - what.offset});
  weights_chunk chunk;
  chunk.layout = fetch.image->layout();
  chunk.num_bytes = num_bytes;
  chunk.checksum = fetch.checksum;
  chunk.offset = what.offset;
  chunk.bytes = payload::allocate(length);
  fetch.image->read(what.offset, {chunk.bytes.mutable_data(), length});
  fetch.used = self->clock().now();
  if (what.offset + length == num_bytes)
    state.open.erase(found);
  sending.args() = {what.offset, length, what.reader.value};
  if (state.config.metrics)
    state.config.metrics->on_weights_sent(length);
  return chunk;
}

weights_sender_actor::behavior_type weights_sender(sender_pointer self, weights_sender_config config) {
  self->state.config = std::move(config);
  return {
      [self](const weights_read& what) -> caf::result<weights_chunk> {
        try {
          return read(self, what);
        } catch (const std::exception& error) {
          return make_error(ec::engine_failed, name_of(what.expert) + " cannot be sent: " + error.what());
        }
      },
      [self](caf::tick_atom) {
        forget_idle(self);
        self->state.ticks = !self->state.open.empty();
        if (self->state.ticks)
          self->delayed_send(self, defaults::weights_idle, caf::tick_atom_v);
      },
  };
}

} // namespace

std::string weights_service(const std::string& name) {
  return name + "/weights";
}

weights_sender_actor spawn_weights_sender(caf::actor_system& system, weights_sender_config config) {
  return config.own_thread ? system.spawn<caf::detached>(weights_sender, std::move(config))
                           : system.spawn(weights_sender, std::move(config));
}

} // namespace troupe
