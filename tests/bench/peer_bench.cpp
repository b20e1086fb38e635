// The workload in ik_llama.cpp, through its public interface; peer.sh builds it against a built peer. Its own
// llama-batched-bench feeds token 0 to every sequence, so that all choose the same experts.
//
//    peer_bench MODEL.gguf THREADS [repack] [merge-qkv] [merge-up-gate] [huge-pages] [kv-q8_0] [cells=N]
#include <llama.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/bench/peer_workload.hpp"

namespace {

using namespace troupe::bench;

class peer_engine final : public workload_engine {
 public:
  peer_engine(const std::string& file, int threads, const std::vector<std::string>& flags) {
    const auto has = [&](const char* flag) { return std::count(flags.begin(), flags.end(), flag) > 0; };
    llama_model_params model = llama_model_default_params();
    model.repack_tensors = has("repack");
    model.merge_qkv = has("merge-qkv");
    model.merge_up_gate_exps = has("merge-up-gate");
    model.use_thp = has("huge-pages");
    model.use_mmap = !model.repack_tensors && !model.merge_qkv && !model.merge_up_gate_exps;
    model_ = llama_model_load_from_file(file.c_str(), model);
    if (model_ == nullptr)
      std::exit(1);
    llama_context_params context = llama_context_default_params();
    context.n_ctx = 2048; // cells of all sequences together
    for (const std::string& flag : flags)
      if (flag.starts_with("cells="))
        context.n_ctx = static_cast<std::uint32_t>(std::stoul(flag.substr(6)));
    if (has("kv-q8_0"))
      context.type_k = context.type_v = GGML_TYPE_Q8_0;
    context.n_batch = 2048;
    context.n_ubatch = 512;
    context.n_seq_max = workload_limits::max_batch;
    context.n_threads = static_cast<std::uint32_t>(threads);
    context.n_threads_batch = static_cast<std::uint32_t>(threads);
    context_ = llama_init_from_model(model_, context);
    if (context_ == nullptr)
      std::exit(1);
    batch_ = llama_batch_init(2048, 0, 1);
  }

  std::uint32_t vocab_size() const override { return static_cast<std::uint32_t>(llama_n_vocab(model_)); }

  void clear() override { llama_kv_cache_clear(context_); }

  void truncate(std::uint32_t tokens) override {
    for (std::uint32_t s = 0; s < workload_limits::max_batch; ++s)
      llama_kv_cache_seq_rm(context_, static_cast<llama_seq_id>(s), static_cast<llama_pos>(tokens), -1);
  }

  void step(const std::vector<workload_row>& rows) override {
    batch_.n_tokens = static_cast<std::int32_t>(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      batch_.token[i] = static_cast<llama_token>(rows[i].token);
      batch_.pos[i] = static_cast<llama_pos>(rows[i].position);
      batch_.n_seq_id[i] = 1;
      batch_.seq_id[i][0] = static_cast<llama_seq_id>(rows[i].sequence);
      batch_.logits[i] = rows[i].wants_logits ? 1 : 0;
    }
    if (llama_decode(context_, batch_) != 0) {
      std::fprintf(stderr, "peer_bench: llama_decode failed\n");
      std::exit(1);
    }
    llama_synchronize(context_);
  }

  std::uint32_t best(std::size_t index) override {
    const float* logits = llama_get_logits_ith(context_, static_cast<std::int32_t>(index));
    return static_cast<std::uint32_t>(std::max_element(logits, logits + vocab_size()) - logits);
  }

 private:
  llama_model* model_ = nullptr;
  llama_context* context_ = nullptr;
  llama_batch batch_{};
};

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: peer_bench MODEL.gguf THREADS [repack] [merge-qkv] [merge-up-gate] [huge-pages] "
                 "[kv-q8_0] [cells=N]\n");
    return 2;
  }
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR)
          std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  peer_engine engine(argv[1], std::atoi(argv[2]), {argv + 3, argv + argc});
  std::printf("{\"ready\": true}\n");
  std::fflush(stdout);
  return serve_workload(engine);
}
