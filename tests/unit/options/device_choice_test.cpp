#include "services/options/device_choice.hpp"

#include <string>

#include <gtest/gtest.h>

#include "services/options/option_parser.hpp"

namespace troupe {
namespace {

TEST(parse_device, reads_the_kind_and_the_number) {
  using kind = device_choice::kind_type;
  EXPECT_EQ(parse_device("auto"), (device_choice{kind::automatic, 0}));
  EXPECT_EQ(parse_device("cpu"), (device_choice{kind::cpu, 0}));
  EXPECT_EQ(parse_device("cuda"), (device_choice{kind::cuda, 0}));
  EXPECT_EQ(parse_device("cuda:0"), (device_choice{kind::cuda, 0}));
  EXPECT_EQ(parse_device("cuda:13"), (device_choice{kind::cuda, 13}));
}

TEST(parse_device, refuses_anything_else_by_name) {
  for (const char* text : {"", "gpu", "CUDA", "cpu:0", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:+1",
                           "cuda: 1", "cuda1", "cuda:99999999999", "auto "}) {
    try {
      parse_device(text);
      FAIL() << text;
    } catch (const option_error& error) {
      EXPECT_EQ(std::string{error.what()},
                "--device: '" + std::string{text} + "' is not one of auto|cpu|cuda[:N]");
    }
  }
}

} // namespace
} // namespace troupe
