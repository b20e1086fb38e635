#include "services/model/model_source.hpp"

#include <filesystem>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "kernels/model/numerics.hpp"
#include "kernels/model/peer_weights.hpp"
#include "tests/reference/random_model.hpp"

namespace troupe {
namespace {

TEST(quantization_of, names_what_the_flags_ask_for) {
  const std::tuple<const char*, const char*, const char*, const char*, const char*> cases[] = {
      {"none", "32", "none", "none", "none"},
      {"auto", "32", "auto", "none", "none"},
      {"int8", "32", "none", "none", "int8"},
      {"int4", "32", "int8", "none", "int4-group32+dense-int8"},
      {"int4", "64", "int4", "int8", "int4-group64+dense-int4-group32+rows-int8"},
      {"int4", "channel", "none", "int8", "int4-channel+rows-int8"},
      {"none", "32", "int4", "none", "none+dense-int4-group32"},
      {"none", "32", "none", "int8", "none"}, // no weights for the rows to enter
  };
  for (const auto& [experts, group, dense, rows, name] : cases) {
    model_options options;
    options.expert_quant = experts;
    options.int4_group = group;
    options.dense_quant = dense;
    options.activation_quant = rows;
    EXPECT_EQ(quantization_of(options).name(), name);
  }
}

TEST(ignored_text, names_the_first_of_each_and_counts_the_rest) {
  model_source source;
  EXPECT_EQ(ignored_text(source), "");
  source.config.ignored = {"unsloth_version", "a\nb"};
  EXPECT_EQ(ignored_text(source), "config.json: unsloth_version, a?b");
  source.generation.ignored = {"top_p = 1.5"};
  for (int i = 0; i < 10; ++i)
    source.unused_tensors.push_back("t" + std::to_string(i));
  EXPECT_EQ(ignored_text(source),
            "config.json: unsloth_version, a?b; generation_config.json: top_p = 1.5; tensors: t0, t1, "
            "t2, t3, t4, t5, t6, t7 and 2 more");
}

TEST(coding_of, follows_the_flag_or_the_plan) {
  model_options options;
  for (const bool coded : {false, true}) {
    kernels::kernel_plan plan = kernels::default_plan(kernels::isa::portable);
    plan.coded_weights = coded;
    options.weight_coding = "auto";
    EXPECT_EQ(coding_of(options, plan) == model::weight_coding::exponents, coded);
    options.weight_coding = "none";
    EXPECT_EQ(coding_of(options, plan), model::weight_coding::none);
    options.weight_coding = "exponents";
    EXPECT_EQ(coding_of(options, plan), model::weight_coding::exponents);
  }
}

// For a model whose weights are elsewhere: the shapes are in config.json.
TEST(open_model_of_peers, computes_with_the_plan_that_is_kept_for_the_model) {
  const test::random_model whole("mixtral");
  const test::scratch_folder bare;
  std::filesystem::copy_file(whole.folder() / "config.json", bare.path() / "config.json");
  model_options options;
  options.model_dir = bare.path().string();
  options.weights_cache = bare.path().string();
  options.device = "cpu";
  options.cpu_isa = "portable";
  options.threads = 1;
  const model::quantization quant{model::expert_quant::int8, model::dense_quant::none,
                                  kernels::row_quant::none};
  const auto numerics = model::numerics_class(kernels::dtype::bf16, quant, kernels::dtype::bf16);
  kernels::kernel_plan kept = kernels::default_plan(kernels::isa::portable);
  kept.least_elements += 1;
  {
    const auto weights = model::peer_weights(model::load_config(bare.path()), kernels::dtype::bf16, quant,
                                             "some model", bare.path());
    plan_store_for(options, demand_of(options, weights.config(), weights, true), process_log("test"))
        .keep(kept);
  }
  EXPECT_EQ(open_model_of_peers(options, "some model", numerics).plan, kept);
  options.kernel_plan = "default";
  EXPECT_EQ(open_model_of_peers(options, "some model", numerics).plan,
            kernels::default_plan(kernels::isa::portable));
}

TEST(model_options, name_the_model_as_told_or_as_its_folder) {
  model_options options;
  for (const char* folder : {"/models/tiny", "/models/tiny/", "/models/x/../tiny"}) {
    options.model_dir = folder;
    EXPECT_EQ(options.model_name(), "tiny") << folder;
  }
  options.served_model_name = "org/tiny";
  EXPECT_EQ(options.model_name(), "org/tiny");
}

TEST(model_options, know_every_quantization_and_no_other) {
  const auto parse = [](const std::string& value) {
    model_options options;
    option_parser parser("test", "");
    options.declare(parser);
    parser.parse({"--dense-quant", value});
    return options.dense_quant;
  };
  for (const char* value : {"auto", "none", "int8", "int4"})
    EXPECT_EQ(parse(value), value);
  EXPECT_THROW(parse("int2"), option_error);
}

TEST(model_options, know_every_type_of_kv_cache_and_no_other) {
  const auto parse = [](const std::string& value) {
    model_options options;
    option_parser parser("test", "");
    options.declare(parser);
    parser.parse({"--kv-cache-dtype", value});
    return options.kv_cache_dtype;
  };
  for (const char* value : {"auto", "int8"})
    EXPECT_EQ(parse(value), value);
  EXPECT_THROW(parse("fp8"), option_error);
}

} // namespace
} // namespace troupe
