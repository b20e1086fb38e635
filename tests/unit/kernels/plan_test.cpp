#include "kernels/cpu/gemm/plan.hpp"

#include <algorithm>
#include <set>

#include "kernels/calibration.hpp"
#include "kernels/error.hpp"
#include "kernels/plan_text.hpp"
#include "tests/unit/kernels/planned_products.hpp"

namespace troupe::kernels {

namespace {

std::vector<const kernel_table*> all_tables() {
  std::vector<const kernel_table*> tables;
  for (const isa set : supported_isas())
    tables.push_back(&table_of(set));
  return tables;
}

std::array<const kernel_table*, num_isas> by_set() {
  std::array<const kernel_table*, num_isas> tables{};
  for (const kernel_table* table : all_tables())
    tables.at(static_cast<std::size_t>(table->set)) = table;
  return tables;
}

/// What is wrong with a text; empty if nothing is.
std::string problem_with(const std::string& text) {
  try {
    plan_from_text(text);
  } catch (const kernel_error& error) {
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

} // namespace

TEST(plan, defaults_run_on_their_set_alone) {
  for (const isa set : supported_isas()) {
    const kernel_plan plan = default_plan(set);
    EXPECT_EQ(problem_of(plan, by_set()), std::nullopt) << name_of(set);
    EXPECT_EQ(plan.sets(), std::vector{set});
  }
}

TEST(plan, coding_is_judged_by_the_chosen_kernels_for_few_rows) {
  const auto cell = [](product_kind kind, std::size_t rows, double seconds, bool is_chosen = true) {
    calibration_cell c;
    c.kind = kind;
    c.rows = rows;
    c.seconds = seconds;
    c.is_chosen = is_chosen;
    return c;
  };
  using enum product_kind;
  std::vector<calibration_cell> cells{cell(bf16, 1, 8.0), cell(bf16, 1, 1.0, false), cell(bf16, 8, 2.0),
                                      cell(int8, 1, 1.0)};
  EXPECT_EQ(is_coding_faster(cells), std::nullopt) << "nothing coded was measured";
  cells.push_back(cell(bf16_coded, 1, 4.0));
  EXPECT_EQ(is_coding_faster(cells), true) << "2 times as fast at one row";
  cells.push_back(cell(bf16_coded, 8, 3.8));
  EXPECT_EQ(is_coding_faster(cells), false) << "the mean of 2 and 0.526 is 1.026: chance";
  cells.back().seconds = 3.7;
  EXPECT_EQ(is_coding_faster(cells), true) << "the mean of 2 and 0.541 is 1.040";
  cells.back().seconds = 16.0;
  EXPECT_EQ(is_coding_faster(cells), false);
  cells.push_back(cell(bf16_coded, 64, 1.0));
  cells.push_back(cell(bf16, 64, 1000.0));
  EXPECT_EQ(is_coding_faster(cells), false) << "many rows do not tell";
}

TEST(plan, a_regime_is_the_first_that_fits) {
  kernel_plan plan = default_plan(isa::portable);
  const auto regime = [](std::size_t rows, std::size_t inputs, std::size_t tile_panels) {
    product_regime r;
    r.most_rows = rows;
    r.most_inputs = inputs;
    r.tile_panels = tile_panels;
    return r;
  };
  plan.of(product_kind::int8) = {regime(3, any_number, 2), regime(5, 1000, 4),
                                 regime(any_number, any_number, 8)};
  EXPECT_EQ(plan.regime(product_kind::int8, 1, 5000).tile_panels, 2U);
  EXPECT_EQ(plan.regime(product_kind::int8, 3, 5000).tile_panels, 2U);
  EXPECT_EQ(plan.regime(product_kind::int8, 4, 1000).tile_panels, 4U);
  EXPECT_EQ(plan.regime(product_kind::int8, 4, 1001).tile_panels, 8U);
  EXPECT_EQ(plan.regime(product_kind::int8, 6, 10).tile_panels, 8U);
}

TEST(plan, every_kernel_of_a_set_is_drawn_sometimes) {
  std::set<std::pair<isa, product_kernel>> drawn;
  for (std::uint32_t seed = 0; seed < 60; ++seed)
    for (const auto& regimes : plan_drawer(all_tables(), seed).draw().products)
      for (const product_regime& r : regimes)
        drawn.insert({r.set, r.kernel});
  for (const kernel_table* table : all_tables())
    for (std::size_t i = 0; i < num_product_kernels; ++i) {
      const auto kernel = static_cast<product_kernel>(i);
      bool is_there = false;
      for (std::size_t kind = 0; kind < num_product_kinds; ++kind)
        is_there = is_there || most_rows_of(*table, kernel, static_cast<product_kind>(kind)) != 0;
      EXPECT_EQ(drawn.count({table->set, kernel}) != 0, is_there)
          << name_of(table->set) << ", " << name_of(kernel);
    }
}

TEST(plan, changes_no_bit_of_a_product) {
  expect_same_under_drawn_plans(table_of(detect()), all_tables(), 12);
}

TEST(plan, its_text_says_all_of_it) {
  for (const isa set : supported_isas())
    EXPECT_EQ(plan_from_text(text_of(default_plan(set))), default_plan(set)) << name_of(set);
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const kernel_plan plan = plan_drawer(all_tables(), seed).draw();
    EXPECT_EQ(problem_of(plan, by_set()), std::nullopt);
    EXPECT_EQ(plan_from_text(text_of(plan)), plan) << text_of(plan);
  }
}

TEST(plan, text_may_leave_out_what_is_as_usual) {
  EXPECT_EQ(plan_from_text("troupe kernel plan 1\nset portable\nend\n"), default_plan(isa::portable));
  kernel_plan plan = default_plan(isa::portable);
  plan.of(product_kind::f32) = {
      default_regime(table_of(isa::portable), product_kernel::fma, product_kind::f32, any_number)};
  plan.of(product_kind::f32).front().tile_panels = 16;
  EXPECT_EQ(plan_from_text("troupe kernel plan 1\n# by hand\nset portable\n"
                           "product f32 rows=any set=portable kernel=fma tile_panels=16 # wide\nend\n"),
            plan);
}

TEST(plan, text_that_is_cut_short_or_changed_is_refused) {
  const std::string text = text_of(default_plan(isa::portable));
  for (std::size_t length = 0; length + 5 < text.size(); length += 7)
    EXPECT_NE(problem_with(text.substr(0, length)), "") << length;
  EXPECT_EQ(problem_with(replaced(text, "plan 1", "plan 2")), "line 1 is not 'troupe kernel plan 1'");
  EXPECT_EQ(problem_with(replaced(text, "set portable", "set sse9")),
            "line 2 names the instruction set 'sse9', which is unknown");
  EXPECT_EQ(problem_with(replaced(text, "kernel=fma", "kernel=abacus")),
            "line 8 names the kernel 'abacus', which is unknown");
  EXPECT_EQ(problem_with(replaced(text, "kernel=fma", "kernel=tiles")),
            "f32, portable tiles: there is no such kernel");
  EXPECT_EQ(problem_with(replaced(text, "tile_panels=4", "tile_panels=5")),
            "f32, portable fma: panels of a tile are not a power of two from 2 to 256");
  EXPECT_EQ(problem_with(replaced(text, "tile_panels=4", "tile_panels=-4")),
            "line 8 has '-4' where a number is expected");
  EXPECT_EQ(problem_with(replaced(text, "rows=12", "rows=99999999999999999999")),
            "line 8 has '99999999999999999999' where a number is expected");
}

TEST(calibration, gives_a_plan_that_runs) {
  thread_pool pool({.threads = 2});
  const std::vector<calibration_weights> weights{
      {.format = packed_format::bf16_pair, .hidden = 128, .ffn = 96, .dense = {{160, 128}}},
      {.format = packed_format::int4_group32, .rows = row_quant::int8, .dense = {{160, 128}}}};
  const auto sets = supported_isas();
  const auto result = calibrate(pool, weights,
                                {.sets = sets,
                                 .budget = std::chrono::minutes{5},
                                 .num_bytes = 1 << 20,
                                 .most_rounds = 3,
                                 .sizes = true,
                                 .may_code = true});
  EXPECT_FALSE(result.is_incomplete);
  EXPECT_EQ(problem_of(result.plan, by_set()), std::nullopt) << text_of(result.plan);
  std::set<product_kind> kinds;
  for (const calibration_cell& cell : result.cells)
    kinds.insert(cell.kind);
  EXPECT_EQ(kinds, (std::set{product_kind::bf16, product_kind::bf16_coded, product_kind::int4_int8}));
  const auto chosen = std::count_if(result.cells.begin(), result.cells.end(),
                                    [](const calibration_cell& cell) { return cell.is_chosen; });
  EXPECT_EQ(chosen, 3 * 8); // one for each number of rows
  EXPECT_EQ(result.plan.coded_weights, is_coding_faster(result.cells).value());
}

TEST(kernels_for, names_each_kernel_once_with_the_rows_that_it_takes) {
  const auto sets = supported_isas();
  for (const product_kind kind : all_product_kinds) {
    const auto found = kernels_for(kind, sets);
    ASSERT_FALSE(found.empty()) << name_of(kind);
    for (const product_regime& regime : found) {
      EXPECT_EQ(regime.most_rows, most_rows_of(table_of(regime.set), regime.kernel, kind)) << name_of(kind);
      EXPECT_EQ(std::count_if(found.begin(), found.end(),
                              [&](const product_regime& other) {
                                return other.set == regime.set && other.kernel == regime.kernel;
                              }),
                1)
          << name_of(kind) << ' ' << name_of(regime.kernel);
      EXPECT_TRUE(regime.set != isa::portable || sets.size() == 1) << "the reference is no choice";
    }
    // The best set's default is among them, perhaps as another set's kernel with the same code.
    const kernel_plan defaults = default_plan(sets.back());
    for (const product_regime& regime : defaults.of(kind))
      EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                              [&](const product_regime& other) { return other.kernel == regime.kernel; }))
          << name_of(kind) << ' ' << name_of(regime.kernel);
  }
}

TEST(calibration, without_time_gives_the_default) {
  thread_pool pool({.threads = 1});
  const std::vector<calibration_weights> weights{{.format = packed_format::bf16_pair, .dense = {{160, 128}}}};
  const auto sets = supported_isas();
  const auto result = calibrate(pool, weights, {.sets = sets, .budget = {}, .num_bytes = 1 << 20});
  EXPECT_TRUE(result.is_incomplete);
  EXPECT_EQ(result.plan, default_plan(sets.back()));
}

} // namespace troupe::kernels
