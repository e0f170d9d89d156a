// Chapter 8's answers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <tuple>

#include "chapters/08_paged/answers/adopt_to_the_last.h"
#include "chapters/08_paged/answers/attend_by_page.h"
#include "chapters/08_paged/answers/beam_search.h"
#include "chapters/08_paged/answers/keep_back.h"
#include "chapters/08_paged/waste.h"
#include "common/attention.h"
#include "common/drawn_requests.h"
#include "common/out_of_pages.h"
#include "tests/support/golden.h"
#include "tests/support/operation_counter.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

Step step_of(int64_t row, const Numbers& tokens) { return {.ids = to_row(tokens), .rows = to_row({row})[0]}; }

// 8.1: adopt to the last token ------------------------------------------------------------------------------------

using AdoptFunction = int64_t (*)(PagedCache&, int64_t, const Numbers&);

int64_t adopt_whole_pages(PagedCache& cache, int64_t row, const Numbers& prompt) {
  return cache.adopt_prefix(row, prompt);
}

class AdoptToTheLast : public testing::Test {
 protected:
  /// As a request: the tokens that had to be fed.
  int64_t ask(PagedCache& cache, int64_t row, const Numbers& prompt, AdoptFunction adopt = adopt_to_the_last) {
    const int64_t adopted = adopt(cache, row, prompt);
    EXPECT_EQ(cache.length(row), adopted);
    feed(cache, row, {prompt.begin() + adopted, prompt.end()}, prompt);
    return static_cast<int64_t>(prompt.size()) - adopted;
  }
  /// The logits are those of all that the row has been fed, uncached.
  void feed(PagedCache& cache, int64_t row, const Numbers& tokens, const Numbers& all) {
    const torch::Tensor logits = model_->logits(model_->hidden(step_of(row, tokens), cache))[0];
    const torch::Tensor alone = full_recompute(checkpoint_, to_row(all), 64)[0];
    const auto n = static_cast<int64_t>(tokens.size());
    EXPECT_LE(max_abs_diff(logits, alone.narrow(0, alone.size(0) - n, n)), 1e-9) << "row " << row;
  }
  /// Greedily, after the prompt, of which the last token has been fed.
  void tell(PagedCache& cache, int64_t row, const Numbers& prompt, int64_t new_tokens) {
    const Numbers ids = to_ids(greedy_recompute(checkpoint_, to_row(prompt), 64, new_tokens));
    Numbers all = prompt;
    for (const int64_t id : ids) {
      all.push_back(id);
      feed(cache, row, {id}, all);
    }
  }
  /// Keys and values of all layers in a row, [2, L, H, P, D]: a look, by a forward that is given up.
  torch::Tensor held_by(PagedCache& cache, int64_t row) {
    const ModelShape shape = model_->shape();
    const torch::Tensor zero = torch::zeros({1, shape.kv_heads, 1, shape.head_size}, torch::kFloat64);
    std::vector<torch::Tensor> keys, values;
    cache.begin(step_of(row, {0}));
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      const KeyValues kv = cache.update(layer, zero, zero);
      keys.push_back(kv.keys[0].narrow(1, 0, cache.length(row)));
      values.push_back(kv.values[0].narrow(1, 0, cache.length(row)));
    }
    const torch::Tensor held = torch::stack({torch::stack(keys), torch::stack(values)});  // copies
    cache.abandon();
    return held;
  }

  const Checkpoint checkpoint_ = golden_checkpoint("tiny");
  Gpt2 model_{checkpoint_};
  const Numbers two_pages_ = {1, 2, 3, 4, 5, 6, 7, 8};
};

// ANCHOR: second_asking
TEST_F(AdoptToTheLast, ASecondAskingOfTwoWholePagesFeedsOneTokenAndLeavesTheFirstRowAsItWas) {
  PagedCache cache(model_->shape(), /*page=*/4, /*pool_pages=*/0, /*rows=*/3);
  EXPECT_EQ(ask(cache, 0, two_pages_), 8);
  const Numbers pages = cache.tables().pages(0);
  const torch::Tensor before = held_by(cache, 0);
  EXPECT_EQ(ask(cache, 1, two_pages_), 1);
  tell(cache, 1, two_pages_, 6);
  EXPECT_EQ(cache.tables().pages(0), pages);
  EXPECT_TRUE(held_by(cache, 0).equal(before));  // to the last bit
  EXPECT_EQ(cache.tables().pages(1)[0], pages[0]);
  EXPECT_NE(cache.tables().pages(1)[1], pages[1]);  // the copy
  EXPECT_EQ(ask(cache, 2, two_pages_), 1);          // what is published is there still
  tell(cache, 0, two_pages_, 6);
}
// ANCHOR_END: second_asking

TEST_F(AdoptToTheLast, APageThatNobodyUsesAnyMoreIsCopiedToo) {
  PagedCache cache(model_->shape(), 4, 0, 2);
  ask(cache, 0, two_pages_);
  const Numbers pages = cache.tables().pages(0);
  cache.truncate(0, 0);
  EXPECT_EQ(ask(cache, 0, two_pages_), 1);
  EXPECT_NE(cache.tables().pages(0)[1], pages[1]);
  EXPECT_EQ(cache.tables().pool().find(pages[0], {5, 6, 7, 8}), pages[1]);
  EXPECT_EQ(cache.tables().pool().cached(), 1);
}

TEST_F(AdoptToTheLast, OnlyAPromptOfWholePagesThatAreAllKnownGains) {
  const Numbers nine = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (int64_t n = 1; n <= 9; ++n) {
    PagedCache cache(model_->shape(), 4, 0, 3);
    ask(cache, 0, {1, 2, 3, 4, 5, 6, 7, 8});
    const Numbers prompt(nine.begin(), nine.begin() + n);
    const int64_t fed = ask(cache, 1, prompt), whole_pages = ask(cache, 2, prompt, adopt_whole_pages);
    EXPECT_EQ(whole_pages, n % 4 == 0 ? 4 : n % 4) << n;
    EXPECT_EQ(fed, n % 4 == 0 ? 1 : n % 4) << n;
    PagedCache other(model_->shape(), 4, 0, 2);
    ask(other, 0, {1, 2, 3, 4, 9, 9, 9, 9});
    EXPECT_EQ(ask(other, 1, prompt), n < 4 ? n : n == 4 ? 1 : n - 4) << n;
  }
}

TEST_F(AdoptToTheLast, PagesOfOneTokenHaveNothingToCopy) {
  PagedCache cache(model_->shape(), 1, 0, 2);
  ask(cache, 0, {7});
  EXPECT_EQ(ask(cache, 1, {7}), 1);
  cache.truncate(1, 0);
  EXPECT_EQ(ask(cache, 1, {7, 8, 9}), 2);
  cache.truncate(1, 0);
  EXPECT_EQ(ask(cache, 1, {7, 8, 9}), 1);
}

TEST_F(AdoptToTheLast, APoolWithNoPageForTheCopyIsAskedForWholePages) {
  for (const int64_t pool_pages : {2, 3}) {
    PagedCache cache(model_->shape(), 4, pool_pages, 1);
    ask(cache, 0, two_pages_);
    cache.truncate(0, 0);
    EXPECT_EQ(ask(cache, 0, two_pages_), pool_pages == 2 ? 4 : 1);
  }
}

TEST_F(AdoptToTheLast, WhatARowGoesOnWithBehindAPageOfItsOwnIsNotFoundEither) {
  for (const AdoptFunction adopt : {adopt_to_the_last, adopt_whole_pages}) {
    PagedCache cache(model_->shape(), 4, 0, 3);
    ask(cache, 0, two_pages_);
    ask(cache, 1, two_pages_, adopt);
    Numbers more = two_pages_;
    for (const int64_t token : {9, 10, 11, 12}) {
      more.push_back(token);
      feed(cache, 1, {token}, more);
    }
    EXPECT_FALSE(cache.tables().pool().is_published(cache.tables().pages(1)[1]));
    EXPECT_FALSE(cache.tables().pool().is_published(cache.tables().pages(1)[2]));
    more.push_back(13);
    EXPECT_EQ(ask(cache, 2, more, adopt), 5);
  }
}

TEST_F(AdoptToTheLast, IsRefusedWhereAdoptPrefixIs) {
  PagedCache cache(model_->shape(), 4, 0, 2);
  EXPECT_EQ(adopt_to_the_last(cache, 0, two_pages_), 0);  // before the first forward
  EXPECT_THROW(adopt_to_the_last(cache, 0, {}), c10::ValueError);
  EXPECT_THROW(adopt_to_the_last(cache, 2, two_pages_), c10::IndexError);
  ask(cache, 0, two_pages_);
  EXPECT_THROW(adopt_to_the_last(cache, 0, two_pages_), c10::IndexError);
}

// ANCHOR: adopt_costs
TEST_F(AdoptToTheLast, CopiesAsManyBytesAsFeedingThePageAndComputesAPageTimesLess) {
  const auto bytes_copied = [&](AdoptFunction adopt) {
    PagedCache cache(model_->shape(), 4, 0, 2);
    ask(cache, 0, two_pages_);
    const int64_t T = 8 - adopt(cache, 1, two_pages_);
    const torch::Tensor key = torch::ones({1, model_->shape().kv_heads, T, model_->shape().head_size}, torch::kFloat64);
    cache.begin(step_of(1, {two_pages_.end() - T, two_pages_.end()}));
    const OperationCounter counter;
    for (int64_t layer = 0; layer < model_->shape().layers; ++layer) cache.update(layer, key, key);
    return counter.bytes_copied;
  };
  const auto multiply_adds = [&](AdoptFunction adopt) {
    PagedCache cache(model_->shape(), 4, 0, 2);
    ask(cache, 0, two_pages_);
    const int64_t T = 8 - adopt(cache, 1, two_pages_);
    const OperationCounter counter;
    model_->hidden(step_of(1, {two_pages_.end() - T, two_pages_.end()}), cache);
    return counter.multiply_adds;
  };
  const int64_t token = 2 * 3 * 24 * 8;                             // bytes: 2·L·E·8
  EXPECT_EQ(bytes_copied(adopt_whole_pages), (4 + 8) * token);      // a page is stored, two are gathered
  EXPECT_EQ(bytes_copied(adopt_to_the_last), (3 + 1 + 8) * token);  // three tokens are copied, one is stored
  EXPECT_EQ(multiply_adds(adopt_whole_pages), 4 * multiply_adds(adopt_to_the_last));
}
// ANCHOR_END: adopt_costs

// 8.2: beams ------------------------------------------------------------------------------------------------------

class BeamSearch : public testing::Test {
 protected:
  // ANCHOR: plain_beams
  /// The same by full recompute: every beam is a list of ids, and all continuations are sorted.
  std::vector<Beam> plain(const Numbers& prompt, int64_t k, int64_t new_tokens) {
    std::vector<Beam> beams(1);
    for (int64_t step = 0; step < new_tokens; ++step) {
      std::vector<std::tuple<double, size_t, int64_t>> all;  // score, negated; beam; id
      for (size_t beam = 0; beam < beams.size(); ++beam) {
        Numbers text = prompt;
        text.insert(text.end(), beams[beam].new_ids.begin(), beams[beam].new_ids.end());
        const torch::Tensor last = full_recompute(checkpoint_, to_row(text), 64)[0][-1].log_softmax(-1);
        for (int64_t id = 0; id < last.size(0); ++id) {
          all.emplace_back(-(beams[beam].score + last[id].item<double>()), beam, id);
        }
      }
      std::sort(all.begin(), all.end());
      std::vector<Beam> next;
      for (int64_t i = 0; i < k; ++i) {
        const auto& [negated, beam, id] = all[i];
        next.push_back({.new_ids = beams[beam].new_ids, .score = -negated});
        next.back().new_ids.push_back(id);
      }
      beams = std::move(next);
    }
    return beams;
  }
  // ANCHOR_END: plain_beams

  /// The fewest pages of a pool in which the search comes to its end.
  int64_t smallest_pool(const Numbers& prompt, int64_t page, int64_t k, int64_t new_tokens) {
    for (int64_t pages = 1;; ++pages) {
      PagedCache cache(model_->shape(), page, pages, k);
      try {
        beam_search(model_, cache, prompt, k, new_tokens);
        return pages;
      } catch (const OutOfPages&) {
      }
    }
  }

  const Checkpoint checkpoint_ = golden_checkpoint("tiny");
  Gpt2 model_{checkpoint_};
  const Numbers prompt_ = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
};

// ANCHOR: same_beams
TEST_F(BeamSearch, FindsTheBeamsOfAFullRecompute) {
  for (const Numbers& prompt : {prompt_, Numbers{3}, Numbers{90, 1, 17, 33}}) {
    for (const int64_t k : {1, 2, 3, 4}) {
      const std::vector<Beam> want = plain(prompt, k, /*new_tokens=*/12);
      for (const int64_t page : {1, 3, 4, 16}) {
        PagedCache cache(model_->shape(), page, /*pool_pages=*/0, /*rows=*/k);
        for (int time = 0; time < 2; ++time) {  // the second time other pages are taken
          const std::vector<Beam> got = beam_search(model_, cache, prompt, k, 12);
          ASSERT_EQ(got.size(), want.size());
          for (size_t beam = 0; beam < want.size(); ++beam) {
            EXPECT_EQ(got[beam].new_ids, want[beam].new_ids) << "k = " << k << ", page " << page << ", beam " << beam;
            EXPECT_NEAR(got[beam].score, want[beam].score, 1e-9);
          }
          EXPECT_EQ(cache.tables().pool().used(), 0);
        }
      }
    }
  }
}
// ANCHOR_END: same_beams

TEST_F(BeamSearch, OfOneBeamIsGreedy) {
  PagedCache cache(model_->shape(), 4, 0, 1);
  EXPECT_EQ(beam_search(model_, cache, prompt_, 1, 20)[0].new_ids,
            to_ids(greedy_recompute(checkpoint_, to_row(prompt_), 64, 20)));
}

// ANCHOR: fewest_pages
TEST_F(BeamSearch, NeedsFewerPagesThanSeparateCopies) {
  constexpr int64_t kPage = 4, kNew = 12;
  const int64_t n = static_cast<int64_t>(prompt_.size()), fed = n + kNew - 1;
  const int64_t shared = n / kPage, whole = (fed + kPage - 1) / kPage;  // pages: of the prompt, and of one beam
  struct Row {
    int64_t k, separate, bound, needed;  // pages: for k copies, by the bound, and of the smallest pool that does
    std::string score;                   // of the best beam
  };
  const std::vector<Row> table = {{1, 6, 6, 6, "-8.04"},
                                  {2, 12, 11, 8, "-5.52"},
                                  {3, 18, 15, 11, "-5.52"},
                                  {4, 24, 20, 12, "-5.52"},
                                  {8, 48, 38, 19, "-5.52"}};
  for (const auto& [k, separate, bound, needed, score] : table) {
    EXPECT_EQ(k * whole, separate);
    EXPECT_EQ(smallest_pool(prompt_, kPage, k, kNew), needed) << "k = " << k;
    EXPECT_EQ(shared + k * (whole - shared) + k / 2, bound);
    EXPECT_LE(needed, bound);
    PagedCache cache(model_->shape(), kPage, needed, k);
    EXPECT_EQ(fmt::format("{:.2f}", beam_search(model_, cache, prompt_, k, kNew)[0].score), score);
  }
}
// ANCHOR_END: fewest_pages

TEST_F(BeamSearch, TiesGoToTheEarlierBeamAndThenToTheLowestId) {
  Checkpoint flat = checkpoint_;  // every logit is 0
  flat.weights["wte.weight"] = torch::zeros_like(flat.weights["wte.weight"]);
  Gpt2 model(flat);
  PagedCache cache(model->shape(), 4, 0, 3);
  const std::vector<Beam> beams = beam_search(model, cache, {5}, 3, 3);
  for (int64_t beam = 0; beam < 3; ++beam) {
    EXPECT_EQ(beams[beam].new_ids, (Numbers{0, 0, beam}));
    EXPECT_NEAR(beams[beam].score, -3 * std::log(97.0), 1e-12);
  }
}

TEST_F(BeamSearch, RefusesWhatCannotBeAnswered) {
  PagedCache cache(model_->shape(), 4, 0, 3);
  const auto refused = [&](const Numbers& prompt, int64_t k, int64_t new_tokens) {
    EXPECT_THROW(beam_search(model_, cache, prompt, k, new_tokens), c10::Error);
    EXPECT_EQ(cache.bytes(), 0);
  };
  refused({}, 2, 1);
  refused({97}, 2, 1);
  refused(Numbers(65, 5), 2, 1);
  refused({5}, 2, 0);
  refused({5}, 2, 65);
  refused({5}, 0, 1);
  refused({5}, 98, 1);
  refused({5}, 4, 1);  // rows
  EXPECT_EQ(beam_search(model_, cache, {5}, 3, 64)[2].new_ids.size(), 64U);
  model_->hidden(step_of(1, {5}), cache);
  EXPECT_THROW(beam_search(model_, cache, {5}, 2, 1), c10::ValueError);
  EXPECT_EQ(beam_search(model_, cache, {5}, 1, 1).size(), 1U);
  PagedCache small(model_->shape(), 4, 3, 3);
  EXPECT_THROW(beam_search(model_, small, prompt_, 3, 2), OutOfPages);
  small.reset();
  EXPECT_EQ(beam_search(model_, small, prompt_, 3, 1).size(), 3U);  // the last tokens are never fed
}

// 8.3: keep some back ---------------------------------------------------------------------------------------------

TEST(KeepBack, WhoStartsLeavesTheSpareSlotsAndWhoRunsMayHaveThem) {
  const auto reservation = keep_back(reserve_pages(16, 4), 16, /*spare=*/8);
  EXPECT_TRUE(reservation->grow(0, 16));  // nobody else is there
  reservation->release(0);
  EXPECT_TRUE(reservation->grow(1, 4));
  EXPECT_FALSE(reservation->grow(2, 5));  // eight for it, four would be left
  EXPECT_EQ(reservation->held(2), 0);
  EXPECT_TRUE(reservation->grow(2, 4));
  EXPECT_TRUE(reservation->grow(1, 12));
  EXPECT_EQ(reservation->held(1), 12);
  EXPECT_FALSE(reservation->grow(2, 5));  // there is no room at all
  EXPECT_EQ(reservation->held(2), 4);
  reservation->release(1);
  EXPECT_TRUE(reservation->grow(3, 4));
  EXPECT_FALSE(reservation->grow(4, 1));
  reservation->release(2);
  EXPECT_TRUE(reservation->grow(4, 1));
  EXPECT_THROW(keep_back(reserve_pages(16, 4), 16, -1), c10::ValueError);
}

TEST(KeepBack, AnOutgrownBlockCountsOnceAndARefusedStartJoinsItsHalvesAgain) {
  const auto reservation = keep_back(reserve_powers_of_two(16), 16, /*spare=*/8);
  EXPECT_TRUE(reservation->grow(0, 2));
  EXPECT_TRUE(reservation->grow(0, 3));   // four instead of two
  EXPECT_FALSE(reservation->grow(1, 5));  // eight of the twelve
  EXPECT_TRUE(reservation->grow(1, 4));
  EXPECT_TRUE(reservation->grow(0, 8));  // the other half is one block still
}

// ANCHOR: spare
constexpr int64_t kSlots = 8 * 1024;

/// Those of `claims waste`.
std::vector<Length> drawn_requests() {
  std::mt19937_64 draw(64);
  std::vector<Length> requests;
  for (int i = 0; i < 64; ++i) {
    const int64_t prompt = drawn_length(draw, 96, 1.0, 4, 512), answer = drawn_length(draw, 128, 1.0, 1, 512);
    requests.push_back({prompt, answer});
  }
  return requests;
}

Usage serve_with_spare(std::unique_ptr<Reservation> reservation, int64_t spare) {
  return serve(*keep_back(std::move(reservation), kSlots, spare), kSlots, drawn_requests());
}

TEST(KeepBack, PreemptionsFallWithTheSpareSlotsAndSoDoRequestsAtOnce) {
  struct Row {
    int64_t spare, preempted, steps;
    std::string at_once, used;
  };
  const std::vector<Row> table = {
      {0, 18, 626, "37.7", "94.2"},   {64, 16, 626, "37.6", "94.2"},  {128, 12, 626, "37.5", "94.0"},
      {256, 7, 629, "37.2", "93.4"},  {512, 4, 633, "36.7", "92.4"},  {1024, 1, 668, "35.2", "88.5"},
      {1536, 0, 671, "33.9", "86.1"}, {2048, 0, 676, "28.2", "76.6"}, {4096, 0, 896, "16.4", "50.9"}};
  for (const Row& row : table) {
    const Usage usage = serve_with_spare(reserve_pages(kSlots, 16), row.spare);
    EXPECT_EQ(usage.preempted, row.preempted) << row.spare << " to spare";
    EXPECT_EQ(usage.steps, row.steps) << row.spare << " to spare";
    EXPECT_EQ(fmt::format("{:.1f}", usage.at_once), row.at_once) << row.spare << " to spare";
    EXPECT_EQ(fmt::format("{:.1f}", 100 * usage.used), row.used) << row.spare << " to spare";
  }
}
// ANCHOR_END: spare

TEST(KeepBack, WithNoneToSpareAllIsAsWithout) {
  const std::vector<std::function<std::unique_ptr<Reservation>()>> kinds = {
      [] { return reserve_the_most(kSlots, 1024); }, [] { return reserve_powers_of_two(kSlots); },
      [] { return reserve_pages(kSlots, 16); }};
  for (const auto& make : kinds) {
    const Usage with = serve_with_spare(make(), 0), without = serve(*make(), kSlots, drawn_requests());
    EXPECT_EQ(with.used, without.used);
    EXPECT_EQ(with.inner, without.inner);
    EXPECT_EQ(with.outer, without.outer);
    EXPECT_EQ(with.at_once, without.at_once);
    EXPECT_EQ(with.steps, without.steps);
    EXPECT_EQ(with.preempted, without.preempted);
  }
}

TEST(KeepBack, WithAllToSpareRequestsAreServedOneByOneAndNoneIsPutOff) {
  int64_t steps = 0;
  for (const Length& request : drawn_requests()) steps += request.answer;
  const Usage usage = serve_with_spare(reserve_pages(kSlots, 16), kSlots);
  EXPECT_EQ(usage.preempted, 0);
  EXPECT_EQ(usage.at_once, 1);
  EXPECT_EQ(usage.steps, steps);  // all of them served
}

// 8.4: attend page by page ----------------------------------------------------------------------------------------

// ANCHOR: in_pages
struct InPages {
  torch::Tensor query, keys, values;  // [H, D], [H, pool slots, D] twice
  Numbers pages;                      // in no order; the table has one page more than `length` needs
  int64_t page, length;

  torch::Tensor slots() const {
    Numbers slots;
    for (int64_t p = 0; p < length; ++p) slots.push_back(pages[p / page] * page + p % page);
    return to_row(slots)[0];
  }
  torch::Tensor by_page() const { return attend_by_page(query, keys, values, pages, page, length); }
  torch::Tensor gathered() const {
    const torch::Tensor row_keys = keys.index_select(1, slots()), row_values = values.index_select(1, slots());
    const KeyValues kv{row_keys.unsqueeze(0), row_values.unsqueeze(0), {}};
    return attend(query.unsqueeze(1).unsqueeze(0), kv)[0].squeeze(1);
  }
};

/// A row in a pool of which all slots that are not the row's hold NaN.
InPages in_pages(int64_t page, int64_t length, int64_t H = 3, int64_t D = 4) {
  torch::manual_seed(84);
  const int64_t needed = (length + page - 1) / page, pool = needed + 3;
  Numbers order = to_ids(torch::randperm(pool).unsqueeze(0));
  order.resize(needed + 1);
  const auto nan = [&] { return torch::full({H, pool * page, D}, std::nan(""), torch::kFloat64); };
  InPages row{torch::randn({H, D}, torch::kFloat64), nan(), nan(), order, page, length};
  for (const torch::Tensor& buffer : {row.keys, row.values}) {
    buffer.index_copy_(1, row.slots(), torch::randn({H, length, D}, torch::kFloat64));
  }
  return row;
}

TEST(AttendByPage, EqualsAttendOnTheGatheredKeysAndReadsNothingElse) {
  for (const int64_t page : {1, 3, 4, 16}) {
    for (const int64_t length : std::vector<int64_t>{1, page, page + 1, 2 * page, 5 * page - 1, 6 * page}) {
      const InPages row = in_pages(page, length);
      EXPECT_LE(max_abs_diff(row.by_page(), row.gathered()), 1e-12) << "page " << page << ", length " << length;
    }
  }
}
// ANCHOR_END: in_pages

// ANCHOR: overflow
TEST(AttendByPage, EqualsAttendWhereEveryExponentialIsInfiniteOrZero) {
  constexpr int64_t kLength = 21;
  const torch::Tensor ramp = 100 * torch::arange(1, 1 + kLength, torch::kFloat64), level = torch::ones_like(ramp);
  for (const torch::Tensor& shift : {800 * level, -800 * level, 800 + ramp, -800 - ramp}) {
    for (const int64_t page : {1, 3, 4, 16}) {
      InPages row = in_pages(page, kLength, /*H=*/3, /*D=*/4);
      row.query.select(1, 0).fill_(2);  // √D: the key's first number is added to the score as it is
      row.keys.select(2, 0).index_add_(1, row.slots(), shift.expand({3, kLength}));
      const torch::Tensor scores = torch::einsum("hd,hsd->hs", {row.query, row.keys.index_select(1, row.slots())}) / 2;
      const torch::Tensor exponentials = scores.exp();
      EXPECT_TRUE(exponentials.isinf().logical_or(exponentials == 0).all().item<bool>());
      EXPECT_LE(max_abs_diff(row.by_page(), row.gathered()), 1e-12) << "page " << page << ", " << shift;
    }
  }
}
// ANCHOR_END: overflow

TEST(AttendByPage, EqualsAttendWithKeysAThousandTimesAsLarge) {
  for (const int64_t page : {1, 3, 4, 16}) {
    InPages row = in_pages(page, 5 * page + 1);
    row.keys.mul_(1e3);
    EXPECT_LE(max_abs_diff(row.by_page(), row.gathered()), 1e-12) << "page " << page;
  }
}

// ANCHOR: copies_nothing
TEST(AttendByPage, CopiesNothingAndMultipliesAsOftenAsAttend) {
  const int64_t H = 12, D = 64;  // GPT-2 124M
  for (const int64_t page : {1, 16, 128}) {
    const InPages row = in_pages(page, /*length=*/500, H, D);
    const auto counted = [](const std::function<torch::Tensor()>& run) {
      const OperationCounter counter;
      run();
      return std::make_pair(counter.bytes_copied, counter.multiply_adds);
    };
    const int64_t multiply_adds = 2 * H * 500 * D;
    EXPECT_EQ(counted([&] { return row.by_page(); }), std::make_pair(int64_t{0}, multiply_adds));
    EXPECT_EQ(counted([&] { return row.gathered(); }), std::make_pair(int64_t{2 * H * 500 * D * 8}, multiply_adds));
    EXPECT_LE(max_abs_diff(row.by_page(), row.gathered()), 1e-12) << "page " << page;
  }
}
// ANCHOR_END: copies_nothing

TEST(AttendByPage, ReadsABufferOfWhichALayerIsAView) {
  const InPages row = in_pages(4, 10);
  InPages layer = row;
  layer.keys = torch::stack({row.values, row.keys})[1];
  layer.values = torch::stack({row.keys, row.values})[1];
  EXPECT_TRUE(layer.by_page().equal(row.by_page()));
}

TEST(AttendByPage, LeavesWhatItIsGivenAsItWas) {
  const InPages row = in_pages(4, 10);
  const torch::Tensor query = row.query.clone(), keys = row.keys.clone(), values = row.values.clone();
  const torch::Tensor first = row.by_page();
  EXPECT_TRUE(row.by_page().equal(first));
  EXPECT_TRUE(row.query.equal(query));
  EXPECT_TRUE(row.keys.allclose(keys, 0, 0, /*equal_nan=*/true));
  EXPECT_TRUE(row.values.allclose(values, 0, 0, /*equal_nan=*/true));
}

TEST(AttendByPage, RefusesWhatDoesNotFit) {
  const InPages row = in_pages(4, 10);  // 3 pages and one more, in a pool of 6
  const auto refused = [&](const std::function<void(InPages&)>& spoil, const std::string& why) {
    InPages other = row;
    spoil(other);
    try {
      other.by_page();
      ADD_FAILURE() << "nobody said: " << why;
    } catch (const c10::ValueError& error) {
      EXPECT_NE(std::string(error.what_without_backtrace()).find(why), std::string::npos) << error.what();
    }
  };
  refused([](InPages& r) { r.query = r.query[0]; }, "query is not [H, D]");
  refused([](InPages& r) { r.query = torch::Tensor(); }, "query is not [H, D]");
  refused([](InPages& r) { r.query = torch::zeros({4, 4}, torch::kFloat64); }, "keys has shape [3, 24, 4]");
  refused([](InPages& r) { r.query = torch::zeros({3, 5}, torch::kFloat64); }, "keys has shape [3, 24, 4]");
  refused([](InPages& r) { r.keys = r.keys.view({3, 6, 4, 4}); }, "keys are not [H, pool slots, D]");
  refused([](InPages& r) { r.keys = torch::Tensor(); }, "keys are not [H, pool slots, D]");
  refused([](InPages& r) { r.values = r.values.narrow(1, 0, 20); }, "values has shape [3, 20, 4]");
  refused([](InPages& r) { r.values = torch::Tensor(); }, "values is undefined");
  refused([](InPages& r) { r.page = 0; }, "at least 1 token, not 0");
  refused([](InPages& r) { r.page = 5; }, "a pool of 24 slots does not consist of pages of 5");
  refused([](InPages& r) { r.length = 0; }, "sees at least 1 token, not 0");
  refused([](InPages& r) { r.length = 17; }, "17 tokens lie in 5 pages, and the table has 4");
  refused([](InPages& r) { r.length = std::numeric_limits<int64_t>::max(); }, "and the table has 4");
  refused([](InPages& r) { r.pages[1] = 6; }, "page 6 is not in a pool of 6");
  refused([](InPages& r) { r.pages[2] = -1; }, "page -1 is not in a pool of 6");
  InPages reserved = row;  // a page that is not read may be any
  reserved.pages[3] = 6;
  EXPECT_TRUE(reserved.by_page().equal(row.by_page()));
}

}  // namespace
}  // namespace kvbook
