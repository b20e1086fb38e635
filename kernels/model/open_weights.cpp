#include "kernels/model/open_weights.hpp"

#include "kernels/model/fingerprint_store.hpp"

#include <utility>

namespace troupe::model {

namespace {

std::shared_ptr<const cpu_weights> open_packed_folder(const std::filesystem::path& file,
                                                      const model_config& config,
                                                      const open_options& options) {
  auto source = packed_source::open(file, config, options.quant.rows, options.memory);
  const auto wanted = options.dtype == dtype_choice::float32    ? kernels::dtype::f32
                      : options.dtype == dtype_choice::bfloat16 ? kernels::dtype::bf16
                                                                : source->type();
  if (wanted != source->type())
    throw model_error(file.string() + ": packed for " + kernels::name_of(source->type())
                      + " activations, asked for " + kernels::name_of(wanted));
  const auto& packed = source->quant();
  auto asked = options.quant;
  if (asked.experts == expert_quant::none && options.experts_as_packed)
    asked.experts = packed.experts;
  if (asked.dense == dense_quant::none && options.dense_as_packed)
    asked.dense = packed.dense;
  if (asked.experts != packed.experts || asked.dense != packed.dense)
    throw model_error(file.string() + ": packed as " + packed.stored_name() + ", asked for "
                      + asked.stored_name());
  return source;
}

} // namespace

std::shared_ptr<const tensor_source> open_tensors(const std::filesystem::path& folder,
                                                  const model_config& config, const open_options& options) {
  if (const auto packed = folder / packed_file_name; std::filesystem::exists(packed))
    throw model_error(packed.string() + ": packed for the CPU; other devices take the original checkpoint");
  auto weights = std::make_shared<checkpoint>(checkpoint::open(folder));
  weights->match(config);
  if (options.unused_tensors && !weights->unused().empty())
    options.unused_tensors(weights->unused());
  const auto type = resolve_dtype(options.dtype, *weights, config);
  auto fingerprint = kept_fingerprint(*weights, config, options.fingerprints);
  return std::make_shared<const tensor_source>(std::move(weights), config, type, options.quant,
                                               std::move(fingerprint));
}

std::shared_ptr<const cpu_weights> open_weights(const std::filesystem::path& folder,
                                                const model_config& config, const open_options& options) {
  if (const auto packed = folder / packed_file_name; std::filesystem::exists(packed))
    return open_packed_folder(packed, config, options);
  auto tensors = open_tensors(folder, config, options);
  const auto coding = options.choose_coding ? options.choose_coding(*tensors) : options.coding;
  auto source = std::make_shared<const checkpoint_source>(std::move(tensors), options.set, coding);
  if (options.cache.folder.empty())
    return source;
  return open_cached(*source, options.memory, options.cache);
}

} // namespace troupe::model
