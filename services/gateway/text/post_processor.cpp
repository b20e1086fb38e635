#include "services/gateway/text/post_processor.hpp"

#include <algorithm>
#include <utility>

namespace troupe::text {

post_processor::post_processor(std::optional<std::int32_t> bos, std::optional<std::int32_t> eos) {
  std::vector<std::int32_t> around;
  if (bos)
    around.push_back(*bos);
  around.push_back(sequence_slot);
  if (eos)
    around.push_back(*eos);
  templates_.push_back(std::move(around));
}

post_processor::post_processor(const json_view& json) {
  read(json);
}

void post_processor::read(const json_view& json) {
  const auto& type = json.at("type").string();
  if (type == "Sequence") {
    const auto list = json.at("processors");
    for (std::size_t i = 0; i < list.array_size(); ++i)
      read(list.item(i));
  } else if (type == "TemplateProcessing") {
    read_template(json);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    const auto id_of = [&](std::string_view member) {
      const auto pair = json.at(member);
      pair.item(0).string();
      return pair.item(1).token_id();
    };
    templates_.push_back({id_of("cls"), sequence_slot, id_of("sep")});
  } else if (type != "ByteLevel") { // ByteLevel only trims offsets
    json.fail("post-processor type '" + type + "' is not supported");
  }
}

void post_processor::read_template(const json_view& json) {
  const auto pieces = json.at("single");
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < pieces.array_size(); ++i) {
    const auto piece = pieces.item(i);
    if (piece.has("Sequence")) {
      const auto id = piece.at("Sequence").at("id");
      if (id.string() != "A")
        id.fail("a single sequence is 'A'");
      out.push_back(sequence_slot);
      continue;
    }
    const auto name = piece.at("SpecialToken").at("id");
    const auto known = json.at("special_tokens");
    if (!known.has(name.string()))
      name.fail("'" + name.string() + "' is not among special_tokens");
    const auto ids = known.at(name.string()).at("ids");
    for (std::size_t k = 0; k < ids.array_size(); ++k)
      out.push_back(ids.item(k).token_id());
  }
  templates_.push_back(std::move(out));
}

bool post_processor::keeps_sequence() const {
  return std::all_of(templates_.begin(), templates_.end(), [](const auto& one) {
    return std::find(one.begin(), one.end(), sequence_slot) != one.end();
  });
}

std::vector<std::int32_t> post_processor::apply(std::vector<std::int32_t> ids) const {
  for (const auto& t : templates_) {
    std::vector<std::int32_t> out;
    out.reserve(ids.size() + t.size());
    for (const auto id : t)
      if (id == sequence_slot)
        out.insert(out.end(), ids.begin(), ids.end());
      else
        out.push_back(id);
    ids = std::move(out);
  }
  return ids;
}

} // namespace troupe::text
