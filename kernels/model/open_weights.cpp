#include "kernels/model/open_weights.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace troupe::model {

namespace {

/// Held while one process fills a place of the cache; goes with the process.
class file_lock {
 public:
  explicit file_lock(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0)
      if (errno != EINTR)
        ::close(std::exchange(fd_, -1));
    if (fd_ < 0)
      throw model_error("cannot lock " + path.string() + ": " + std::strerror(errno));
  }

  ~file_lock() { ::close(fd_); }

  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;

 private:
  int fd_;
};

std::shared_ptr<const weight_source> open_packed_folder(const std::filesystem::path& file,
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
  if (options.quant.any() && (options.quant.experts != packed.experts || options.quant.dense != packed.dense))
    throw model_error(file.string() + ": packed as " + packed.stored_name() + ", asked for "
                      + options.quant.stored_name());
  return source;
}

std::shared_ptr<const weight_source> open_cached(const checkpoint_source& source,
                                                 const open_options& options) {
  std::error_code error;
  std::filesystem::create_directories(options.cache, error);
  if (error)
    throw model_error("cannot make the cache folder " + options.cache.string() + ": " + error.message());
  const auto file =
      options.cache
      / (source.fingerprint() + "-" + kernels::name_of(source.type()) + "-" + source.quant().stored_name()
         + (source.coding() == weight_coding::none ? "" : "-coded") + ".troupe");
  const file_lock lock(file.string() + ".lock");
  if (std::filesystem::exists(file)) {
    try {
      return packed_source::open(file, source.config(), options.quant.rows, options.memory);
    } catch (const model_error&) {
      // Another version's, or damaged: it is ours to write again.
    }
  }
  write_packed(source, file, options.threads, options.progress);
  return packed_source::open(file, source.config(), options.quant.rows, options.memory);
}

} // namespace

std::shared_ptr<const weight_source> open_weights(const std::filesystem::path& folder,
                                                  const model_config& config, const open_options& options) {
  if (const auto packed = folder / packed_file_name; std::filesystem::exists(packed))
    return open_packed_folder(packed, config, options);
  auto weights = std::make_shared<checkpoint>(checkpoint::open(folder));
  weights->validate(config);
  const auto type = resolve_dtype(options.dtype, *weights);
  auto source = std::make_shared<const checkpoint_source>(std::move(weights), config, type, options.quant,
                                                          options.set, options.coding);
  return options.cache.empty() ? source : open_cached(*source, options);
}

} // namespace troupe::model
