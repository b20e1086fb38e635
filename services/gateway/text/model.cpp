#include "services/gateway/text/model.hpp"

namespace troupe::text {

std::unique_ptr<const model> make_model(const json_view& json) {
  json.expect_object();
  std::string type = json.string_or("type", "");
  if (type.empty()) // files from before 2020 lack the type
    type = json.has("merges") ? "BPE" : json.has("unk_id") ? "Unigram" : "";
  if (type == "BPE")
    return make_bpe_model(json);
  if (type == "Unigram")
    return make_unigram_model(json);
  json.fail("model type '" + type + "' is not supported (BPE and Unigram are)");
}

} // namespace troupe::text
