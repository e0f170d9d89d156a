// Chapter 9's answers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "chapters/02_cat_cache/cat_cache.h"
#include "chapters/04_preallocated/preallocated_cache.h"
#include "chapters/09_int8/answers/int4.h"
#include "chapters/09_int8/answers/requantizing_cache.h"
#include "chapters/09_int8/answers/two_sided.h"
#include "chapters/09_int8/grouped_int8_cache.h"
#include "chapters/09_int8/int8_cache.h"
#include "chapters/09_int8/tales_ranges.h"
#include "common/axes.h"
#include "common/forwarding_cache.h"
#include "common/generate.h"
#include "common/input_file.h"
#include "common/model_source.h"
#include "tests/support/golden.h"
#include "tests/support/oracle.h"
#include "tests/support/small_forward.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

using Numbers = std::vector<int64_t>;

/// A forward of T given keys, [B, 2, T, D]; what layer 0 is given.
KeyValues feed_keys(KVCache& cache, const torch::Tensor& keys) {
  cache.begin({torch::zeros({keys.size(kRowAxis), keys.size(kSeqAxis)}, torch::kInt64)});
  const KeyValues first = cache.update(0, keys, -keys);
  for (int64_t layer = 1; layer < cache.shape().layers; ++layer) cache.update(layer, keys, -keys);
  cache.commit();
  return first;
}

torch::Tensor random_keys(int64_t T, uint64_t seed, int64_t B = 1, int64_t D = 4) {
  torch::manual_seed(seed);
  return torch::randn({B, 2, T, D}, torch::kFloat64);
}

// ---- the tales, with and without rounding

constexpr int64_t kNew = 200;
using MakeCache = std::function<std::unique_ptr<KVCache>(const ModelShape&)>;

struct Tale {
  torch::Tensor whole;   // [1, T + 199]: the prompt's ids, then what the model goes on with, without rounding
  torch::Tensor logits;  // of whole, without rounding
  int64_t prompt;        // T
  Numbers told;          // the 200 new ids
};

struct Tales {
  NamedModel model = open_model("tales", torch::kFloat64);
  Gpt2 gpt2{model.checkpoint};
  KeyValueRanges ranges = tales_ranges(model);
  std::vector<Tale> all;
};

Tales& tales() {
  static Tales tales = [] {
    Tales made;
    const ModelShape shape = made.gpt2->shape();
    const nlohmann::json file = nlohmann::json::parse(read_text(data_folder() / "tales" / "prompts.json", 1 << 20));
    for (const auto& prompt : file.at("prompts")) {
      const torch::Tensor ids = to_row(prompt.at("ids").get<Numbers>());
      PreallocatedCache exact(shape, shape.context);
      const torch::Tensor told = generate(made.gpt2, exact, ids, {.new_tokens = kNew}).new_ids;
      const torch::Tensor whole = torch::cat({ids, told}, 1).narrow(1, 0, ids.size(1) + kNew - 1);
      exact.reset();
      const torch::Tensor logits = made.gpt2->logits(made.gpt2->hidden({whole}, exact));
      made.all.push_back({.whole = whole, .logits = logits, .prompt = ids.size(1), .told = to_ids(told)});
    }
    return made;
  }();
  return tales;
}

// ANCHOR: tales_row
/// The row of `claims rounding` for a cache: bytes; how far logits move, the mean over all tokens and the most; first
/// choices that are the same; the first new token that is another one. Each tale is fed in one forward. Where a prompt
/// is cut changes nothing, and up to its first difference a text that is told with rounding is the one without: so
/// nothing has to be generated.
std::string tales_row(const MakeCache& make) {
  double sum = 0, most = 0;
  int64_t same = 0, tokens = 0, earliest = kNew + 1, bytes = 0;
  for (const Tale& tale : tales().all) {
    const auto cache = make(tales().gpt2->shape());
    const torch::Tensor got = tales().gpt2->logits(tales().gpt2->hidden({tale.whole}, *cache));
    const torch::Tensor moved = (got - tale.logits).abs().amax(-1);
    sum += moved.sum().item<double>();
    most = std::max(most, moved.max().item<double>());
    same += got.argmax(-1).eq(tale.logits.argmax(-1)).sum().item<int64_t>();
    tokens += moved.numel();
    const Numbers chosen = to_ids(got.argmax(-1).narrow(1, tale.prompt - 1, kNew));
    const auto at = std::mismatch(chosen.begin(), chosen.end(), tale.told.begin()).first - chosen.begin();
    if (at < kNew) earliest = std::min<int64_t>(earliest, at + 1);
    bytes = cache->bytes();
  }
  return fmt::format("{} | {:.3f} | {:.3f} | {:.1f} % | {}", bytes, sum / static_cast<double>(tokens), most,
                     100.0 * static_cast<double>(same) / static_cast<double>(tokens),
                     earliest <= kNew ? fmt::format("token {}", earliest) : "never");
}
// ANCHOR_END: tales_row

template <typename Cache>
MakeCache in_groups(int64_t group) {
  return [=](const ModelShape& shape) { return std::make_unique<Cache>(shape, group); };
}

// 9.1: four bits --------------------------------------------------------------------------------------------------

// ANCHOR: pairs
TEST(PackCodes, EveryPairOfCodesComesBackFromOneByte) {
  const torch::Tensor codes = torch::arange(-7, 8, torch::kInt8);
  const torch::Tensor pairs = torch::cartesian_prod({codes, codes});  // [225, 2]
  const torch::Tensor bytes = pack_codes(pairs);
  EXPECT_EQ(bytes.sizes(), (Numbers{225, 1}));
  EXPECT_TRUE(unpack_codes(bytes, 2).equal(pairs));
  EXPECT_EQ(std::get<0>(at::_unique(bytes)).numel(), 225) << "two pairs share a byte";
}
// ANCHOR_END: pairs

TEST(PackCodes, AnOddRowEndsInHalfAByte) {
  for (const int64_t D : {0, 1, 2, 3, 5, 8}) {
    torch::manual_seed(D);
    const torch::Tensor codes = torch::randint(-7, 8, {2, 3, D}, torch::kInt8);
    const torch::Tensor bytes = pack_codes(codes);
    EXPECT_EQ(bytes.sizes(), (Numbers{2, 3, (D + 1) / 2}));
    EXPECT_TRUE(unpack_codes(bytes, D).equal(codes));
  }
}

TEST(PackCodes, WhatIsNoCodeIsRefused) {
  EXPECT_THROW(pack_codes(torch::full({2}, 8, torch::kInt8)), c10::ValueError);
  EXPECT_THROW(pack_codes(torch::full({2}, -8, torch::kInt8)), c10::ValueError);
  EXPECT_THROW(pack_codes(torch::full({2}, -128, torch::kInt8)), c10::ValueError);
  EXPECT_THROW(pack_codes(torch::zeros({2})), c10::ValueError);
  EXPECT_THROW(unpack_codes(torch::zeros({2}, torch::kInt8), 4), c10::ValueError);
  EXPECT_THROW(unpack_codes(torch::zeros({2}, torch::kUInt8), 5), c10::ValueError);
}

// ANCHOR: int4_bytes
TEST(Int4Cache, HoldsHalfBytesByTheFormulaScalesIncluded) {
  for (const int64_t D : {4, 5}) {
    for (const int64_t B : {1, 3}) {
      ModelShape shape = kSmallShape;  // L = 2, H = 2, C = 8
      shape.head_size = D;
      Int4Cache cache(shape, /*group=*/3);
      EXPECT_EQ(cache.bytes(), 0);
      feed_keys(cache, random_keys(5, 1, B, D));
      const int64_t codes = 6 * ((D + 1) / 2), scales = 2 * D * 4, open = 2 * D * 8;  // two groups, two as they came
      EXPECT_EQ(cache.bytes(), 2 * 2 * B * 2 * (codes + scales + open));
    }
  }
}
// ANCHOR_END: int4_bytes

TEST(Int4Cache, WhatComesBackIsWithinHalfAStepOfItsGroup) {
  ModelShape shape = kSmallShape;
  shape.head_size = 5;
  Int4Cache cache(shape, 3);
  const torch::Tensor keys = random_keys(7, 2, 1, 5);
  feed_keys(cache, keys.narrow(kSeqAxis, 0, 6));
  const KeyValues kv = feed_keys(cache, keys.narrow(kSeqAxis, 6, 1));
  for (int64_t begin = 0; begin < 6; begin += 3) {
    const torch::Tensor group = keys.narrow(kSeqAxis, begin, 3), half = group.abs().amax(kSeqAxis, true) / 14;
    const torch::Tensor error = (kv.keys.narrow(kSeqAxis, begin, 3) - group).abs();
    EXPECT_TRUE((error <= half * (1 + 1e-6)).all().item<bool>());
    EXPECT_GT(error.max().item<double>(), 0.01) << "nothing was rounded";
  }
  EXPECT_TRUE(kv.keys.narrow(kSeqAxis, 6, 1).equal(keys.narrow(kSeqAxis, 6, 1)));
  EXPECT_TRUE(kv.values.equal(-kv.keys));
}

// ANCHOR: splits
TEST(Int4Cache, AnySplitGivesTheLogitsOfTheWholePrompt) {
  for (const std::string name : {"nano", "tiny"}) {
    Gpt2 model(golden_checkpoint(name));
    const int64_t T = model->shape().context;
    torch::manual_seed(91);
    const torch::Tensor ids = torch::randint(model->shape().vocabulary, {2, T}, torch::kInt64);
    for (const int64_t group : {1, 3, 4, 32}) {
      Int4Cache at_once(model->shape(), group);
      const torch::Tensor want = in_chunks(model, at_once, ids, {T});
      for (int64_t chunk = 1; chunk < T; ++chunk) {
        Numbers sizes(T / chunk, chunk);
        if (T % chunk > 0) sizes.push_back(T % chunk);
        Int4Cache cache(model->shape(), group);
        EXPECT_LE(max_abs_diff(in_chunks(model, cache, ids, sizes), want), 1e-9)
            << name << ", " << group << ", " << chunk;
        EXPECT_EQ(cache.bytes(), at_once.bytes());
      }
    }
  }
}
// ANCHOR_END: splits

TEST(Int4Cache, AForwardThatIsGivenUpChangesNothing) {
  const torch::Tensor keys = random_keys(8, 3), other = random_keys(4, 4);
  Int4Cache disturbed(kSmallShape, 3), calm(kSmallShape, 3);
  feed_keys(calm, keys.narrow(kSeqAxis, 0, 4));
  const KeyValues want = feed_keys(calm, keys.narrow(kSeqAxis, 4, 4));
  feed_keys(disturbed, keys.narrow(kSeqAxis, 0, 4));
  disturbed.begin({torch::zeros({1, 4}, torch::kInt64)});
  disturbed.update(0, other, other);  // fills a group
  disturbed.abandon();
  const KeyValues got = feed_keys(disturbed, keys.narrow(kSeqAxis, 4, 4));
  EXPECT_TRUE(got.keys.equal(want.keys));
  EXPECT_TRUE(got.values.equal(want.values));
}

TEST(Int4Cache, TheOpenGroupCanBeGivenBackAndNoMore) {
  Int4Cache cache(kSmallShape, 3);
  feed_keys(cache, random_keys(5, 5));
  EXPECT_EQ(cache.can_give_back(), 2);
  EXPECT_THROW(cache.truncate(2), c10::IndexError);
  cache.truncate(4);
  EXPECT_EQ(cache.slots(), (Numbers{0, 1, 2, kEmptySlot, kEmptySlot, kEmptySlot, 3}));
  cache.begin({torch::zeros({1, 3}, torch::kInt64)});
  EXPECT_EQ(cache.columns(), (Numbers{0, 1, 2, 3, 4, 5, 3, 4, 5, 6}));
  cache.reset();
  EXPECT_EQ(cache.bytes(), 0);
  EXPECT_THROW(Int4Cache(kSmallShape, 0), c10::ValueError);
}

// ANCHOR: int4_table
TEST(Int4Cache, TheTalesHaveTheseRows) {
  EXPECT_EQ(tales_row(in_groups<GroupedInt8Cache>(32)), "638976 | 0.010 | 0.055 | 100.0 % | never");
  EXPECT_EQ(tales_row(in_groups<Int4Cache>(32)), "376832 | 0.182 | 1.121 | 99.8 % | token 80");
  EXPECT_EQ(tales_row(in_groups<Int4Cache>(8)), "573440 | 0.240 | 0.989 | 99.9 % | token 144");
}
// ANCHOR_END: int4_table

// ANCHOR: open_group
TEST(Int4Cache, LogitsMoveLessTheMoreTokensOfTheOpenGroupAreAsTheyCame) {
  // Mean movement of the queries that see 1 to 8, 9 to 16, 17 to 24 and 25 to 32 tokens as they came; without the
  // first group, which has no codes before it.
  std::vector<double> sums(4, 0), counts(4, 0);
  for (const Tale& tale : tales().all) {
    Int4Cache cache(tales().gpt2->shape(), 32);
    const torch::Tensor got = tales().gpt2->logits(tales().gpt2->hidden({tale.whole}, cache));
    const torch::Tensor moved = (got - tale.logits).abs().amax(-1)[0];
    for (int64_t position = 32; position < moved.size(0); ++position) {
      sums[position % 32 / 8] += moved[position].item<double>();
      ++counts[position % 32 / 8];
    }
  }
  std::vector<std::string> means;
  for (size_t i = 0; i < 4; ++i) means.push_back(fmt::format("{:.2f}", sums[i] / counts[i]));
  EXPECT_EQ(means, (std::vector<std::string>{"0.32", "0.22", "0.16", "0.13"}));
}
// ANCHOR_END: open_group

// 9.2: keys by channel, values by token ---------------------------------------------------------------------------

using enum ScaleOf;

// ANCHOR: outliers
/// "of the weights | of the output" for keys and values by token | token, token | channel, channel | token and
/// channel | channel.
std::vector<std::string> errors_of(OutlierAt outlier) {
  std::vector<std::string> errors;
  for (const ScaleOf keys : {kToken, kChannel}) {
    for (const ScaleOf values : {kToken, kChannel}) {
      const TwoSidedErrors e = two_sided_errors(outlier, keys, values);
      errors.push_back(fmt::format("{:.4f} | {:.4f}", e.weights, e.output));
    }
  }
  return errors;
}

TEST(TwoSided, AnOutlierWantsAScaleOfItsOwnOnEitherSide) {
  using Errors = std::vector<std::string>;
  EXPECT_EQ(errors_of(OutlierAt::kKeysChannel),
            (Errors{"0.3964 | 0.0541", "0.3964 | 0.0541", "0.0014 | 0.0005", "0.0014 | 0.0005"}));
  EXPECT_EQ(errors_of(OutlierAt::kKeysToken),
            (Errors{"0.0007 | 0.0009", "0.0007 | 0.0009", "0.1846 | 0.0262", "0.1846 | 0.0262"}));
  EXPECT_EQ(errors_of(OutlierAt::kValuesChannel),
            (Errors{"0.0015 | 0.1153", "0.0015 | 0.0005", "0.0014 | 0.1153", "0.0014 | 0.0005"}));
  EXPECT_EQ(errors_of(OutlierAt::kValuesToken),
            (Errors{"0.0015 | 0.0091", "0.0015 | 0.1185", "0.0014 | 0.0089", "0.0014 | 0.1170"}));
}
// ANCHOR_END: outliers

// ANCHOR: two_sided_table
TEST(TwoSided, TheTalesHaveTheseRows) {
  const KeyValueRanges& ranges = tales().ranges;
  const auto row = [](const KeyValueRanges& fixed) {
    return tales_row([&](const ModelShape& shape) { return std::make_unique<TwoSidedCache>(shape, fixed); });
  };
  EXPECT_EQ(row({}), "589824 | 0.026 | 0.076 | 100.0 % | never");
  EXPECT_EQ(row({.values = ranges.values}), "559104 | 0.031 | 0.117 | 100.0 % | never");
  EXPECT_EQ(row({.keys = ranges.keys}), "559104 | 0.033 | 0.223 | 100.0 % | never");
  EXPECT_EQ(row(ranges), "528384 | 0.038 | 0.202 | 100.0 % | never");
}
// ANCHOR_END: two_sided_table

// ANCHOR: stand_out
TEST(TwoSided, InTheSmallModelNoChannelStandsOutOnEitherSide) {
  // A head's greatest channel over its middle one: the mean over all heads, and the most.
  const auto stands_out = [](const torch::Tensor& range) {  // [L, H, D]
    const torch::Tensor share = range.amax(-1) / std::get<0>(range.median(-1));
    return fmt::format("{:.1f} | {:.1f}", share.mean().item<double>(), share.max().item<double>());
  };
  EXPECT_EQ(stands_out(tales().ranges.keys), "1.4 | 1.7");
  EXPECT_EQ(stands_out(tales().ranges.values), "1.4 | 2.0");
}
// ANCHOR_END: stand_out

TEST(TwoSidedCache, IsInt8CacheWhereBothSidesAreOfAKind) {
  const KeyValueRanges& ranges = tales().ranges;
  const torch::Tensor& ids = tales().all[0].whole;
  const ModelShape shape = tales().gpt2->shape();
  for (const KeyValueRanges& fixed : {KeyValueRanges{}, ranges}) {
    Int8Cache one_kind(shape, fixed);
    TwoSidedCache each_its_own(shape, fixed);
    EXPECT_TRUE(tales().gpt2->hidden({ids}, each_its_own).equal(tales().gpt2->hidden({ids}, one_kind)));
    EXPECT_EQ(each_its_own.bytes(), one_kind.bytes());
  }
}

// ANCHOR: two_sided_bytes
TEST(TwoSidedCache, EachSideHoldsWhatItsScalesAsk) {
  TwoSidedCache cache(kSmallShape, {.keys = torch::ones({2, 2, 4})});
  feed_keys(cache, random_keys(3, 6, /*B=*/3));
  const int64_t L = 2, B = 3, H = 2, C = 8, D = 4;
  EXPECT_EQ(cache.bytes(), L * H * (B * C * D + 4 * D) + L * B * H * C * (D + 4));
}
// ANCHOR_END: two_sided_bytes

TEST(TwoSidedCache, AnySplitGivesTheLogitsOfTheWholePrompt) {
  Gpt2 model(golden_checkpoint("tiny"));
  const ModelShape shape = model->shape();
  torch::manual_seed(92);
  const torch::Tensor ids = torch::randint(shape.vocabulary, {1, 13}, torch::kInt64);
  const torch::Tensor range = torch::ones({shape.layers, shape.kv_heads, shape.head_size});
  for (const KeyValueRanges& fixed : {KeyValueRanges{.keys = range}, {.values = range}}) {
    TwoSidedCache at_once(shape, fixed);
    const torch::Tensor want = in_chunks(model, at_once, ids, {13});
    for (const Numbers& sizes : {Numbers(13, 1), Numbers{4, 9}, Numbers{7, 1, 5}}) {
      TwoSidedCache cache(shape, fixed);
      EXPECT_LE(max_abs_diff(in_chunks(model, cache, ids, sizes), want), 1e-9);
    }
  }
}

TEST(TwoSidedCache, ARangeOfAnotherShapeIsRefused) {
  EXPECT_THROW(TwoSidedCache(kSmallShape, {.keys = torch::ones({2, 2, 5})}), c10::ValueError);
  EXPECT_THROW(TwoSidedCache(kSmallShape, {.values = torch::ones({1, 2, 4})}), c10::ValueError);
}

// 9.3: rounded again and again ------------------------------------------------------------------------------------

/// Remembers the keys that came.
class KeyRecorder final : public ForwardingCache {
 public:
  using ForwardingCache::ForwardingCache;
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    keys.push_back(key);
    return ForwardingCache::update(layer, key, value);
  }
  std::vector<torch::Tensor> keys;  // a layer each, of one forward
};

constexpr int64_t kTokens = 400;

/// The keys of three tales one behind the other, [L, 1, H, 400, D].
torch::Tensor keys_of_tales() {
  std::istringstream lines(read_text(data_folder() / "tales" / "calibration.txt", 1 << 20));
  Numbers ids;
  for (std::string line; static_cast<int64_t>(ids.size()) < kTokens && std::getline(lines, line);) {
    for (const int64_t id : tales().model.tokenizer->encode(line)) ids.push_back(id);
  }
  ids.resize(kTokens);
  CatCache exact(tales().gpt2->shape());
  KeyRecorder recorder(exact);
  tales().gpt2->hidden({to_row(ids)}, recorder);
  return torch::stack(recorder.keys);
}

/// A range that grows by 0.3 % with every token, [400, 1].
torch::Tensor growing_range() { return torch::pow(1.003, torch::arange(kTokens, torch::kFloat64)).unsqueeze(1); }

/// Drawn from that range, [1, 1, 1, 400, 64].
torch::Tensor drawn_keys() {
  torch::manual_seed(93);
  return (growing_range() * (2 * torch::rand({kTokens, 64}, torch::kFloat64) - 1)).view({1, 1, 1, kTokens, 64});
}

/// Each number lies at the end of that range, with a drawn sign: every token has greater numbers than all before it.
torch::Tensor greater_and_greater_keys() {
  torch::manual_seed(94);
  const torch::Tensor signs = 2 * torch::randint(2, {kTokens, 64}, torch::kFloat64) - 1;
  return (growing_range() * signs).view({1, 1, 1, kTokens, 64});
}

// ANCHOR: curve
/// Feeds `keys` token by token; the error of all that are held, at 50, 100, 200 and 400 tokens: "mean | greatest". In
/// steps: of a channel whose greatest number so far is x, x / 127.
std::vector<std::string> curve(const torch::Tensor& keys, const MakeCache& make) {
  const ModelShape shape{.layers = keys.size(0),
                         .heads = keys.size(2),
                         .kv_heads = keys.size(2),
                         .head_size = keys.size(4),
                         .context = kTokens,
                         .vocabulary = 1};
  const auto cache = make(shape);
  std::vector<std::string> errors;
  for (int64_t P = 1; P <= kTokens; ++P) {
    cache->begin({torch::zeros({1, 1}, torch::kInt64)});
    std::vector<torch::Tensor> held;
    for (int64_t layer = 0; layer < shape.layers; ++layer) {
      const torch::Tensor key = keys[layer].narrow(kSeqAxis, P - 1, 1);
      held.push_back(cache->update(layer, key, key).keys);
    }
    cache->commit();
    if (P != 50 && P != 100 && P != 200 && P != 400) continue;
    const torch::Tensor came = keys.narrow(1 + kSeqAxis, 0, P);
    const torch::Tensor step = came.abs().amax(1 + kSeqAxis, /*keepdim=*/true) / 127;
    const torch::Tensor error = (torch::stack(held) - came).abs() / step;
    errors.push_back(fmt::format("{:.2f} | {:.1f}", error.mean().item<double>(), error.max().item<double>()));
  }
  return errors;
}
// ANCHOR_END: curve

std::unique_ptr<KVCache> anew(const ModelShape& shape) { return std::make_unique<RequantizingCache>(shape); }

/// Ranges known beforehand: those of these very keys.
MakeCache fixed_for(const torch::Tensor& keys) {
  const torch::Tensor range = keys.abs().amax({1, 3});  // [L, 1, H, T, D] -> [L, H, D]
  return [=](const ModelShape& shape) { return std::make_unique<Int8Cache>(shape, KeyValueRanges{range, range}); };
}

/// How often the greatest number of a channel so far becomes greater after the first token, on average.
std::string growths(const torch::Tensor& keys) {
  const torch::Tensor so_far = std::get<0>(keys.abs().cummax(1 + kSeqAxis));
  return fmt::format("{:.1f}",
                     so_far.diff(1, 1 + kSeqAxis).gt(0).sum(1 + kSeqAxis).to(torch::kFloat64).mean().item<double>());
}

// ANCHOR: curves
using Curve = std::vector<std::string>;

TEST(RequantizingCache, OnTheTaleItsErrorStaysNearAQuarterOfAStepWithAFewNumbersFarOff) {
  const torch::Tensor keys = keys_of_tales();
  EXPECT_EQ(growths(keys), "5.4");
  EXPECT_EQ(growths(keys.narrow(1 + kSeqAxis, 0, 50)), "3.8");
  EXPECT_EQ(curve(keys, anew), (Curve{"0.29 | 1.6", "0.29 | 1.9", "0.29 | 2.1", "0.29 | 2.1"}));
  EXPECT_EQ(curve(keys, in_groups<GroupedInt8Cache>(32)),
            (Curve{"0.15 | 0.5", "0.20 | 0.5", "0.18 | 0.5", "0.17 | 0.5"}));
  EXPECT_EQ(curve(keys, fixed_for(keys)), (Curve{"0.30 | 1.4", "0.28 | 1.0", "0.26 | 0.8", "0.25 | 0.5"}));
}

TEST(RequantizingCache, ItsErrorGrowsWhereTheRangeGrowsSlowly) {
  const torch::Tensor keys = drawn_keys();
  EXPECT_EQ(growths(keys), "28.6");
  EXPECT_EQ(curve(keys, anew), (Curve{"0.34 | 2.0", "0.44 | 2.4", "0.55 | 3.0", "0.68 | 3.6"}));
  EXPECT_EQ(curve(keys, in_groups<GroupedInt8Cache>(32)),
            (Curve{"0.15 | 0.5", "0.21 | 0.5", "0.18 | 0.5", "0.14 | 0.5"}));
  EXPECT_EQ(curve(keys, fixed_for(keys)), (Curve{"0.72 | 1.6", "0.62 | 1.4", "0.46 | 1.1", "0.25 | 0.5"}));
}

TEST(RequantizingCache, WhereEveryTokenIsALittleGreaterAllNumbersBecomeTheGreatest) {
  const torch::Tensor keys = greater_and_greater_keys();
  EXPECT_EQ(growths(keys), "399.0");
  EXPECT_EQ(curve(keys, anew), (Curve{"8.88 | 17.3", "17.09 | 32.6", "31.32 | 57.0", "52.88 | 88.6"}));
  EXPECT_EQ(curve(keys, in_groups<GroupedInt8Cache>(32)),
            (Curve{"0.15 | 0.5", "0.21 | 0.5", "0.18 | 0.5", "0.14 | 0.5"}));
  EXPECT_EQ(curve(keys, fixed_for(keys)), (Curve{"0.73 | 1.4", "0.62 | 1.2", "0.46 | 0.9", "0.25 | 0.5"}));
}
// ANCHOR_END: curves

// ANCHOR: chunk
TEST(RequantizingCache, WhatItHoldsDependsOnWhereThePromptIsCut) {
  const torch::Tensor keys = random_keys(8, 7);
  RequantizingCache at_once(kSmallShape), one_by_one(kSmallShape);
  const torch::Tensor once = feed_keys(at_once, keys).keys;
  torch::Tensor again;
  for (int64_t t = 0; t < 8; ++t) again = feed_keys(one_by_one, keys.narrow(kSeqAxis, t, 1)).keys;
  const torch::Tensor step = keys.abs().amax(kSeqAxis, true) / 127;
  EXPECT_TRUE(((once - keys).abs() <= step / 2 * (1 + 1e-6)).all().item<bool>()) << "rounded once";
  EXPECT_FALSE(((again - keys).abs() <= step / 2 * (1 + 1e-6)).all().item<bool>());
}
// ANCHOR_END: chunk

TEST(RequantizingCache, HoldsCodesAndOneScaleAChannelAndForgetsAForwardThatIsGivenUp) {
  RequantizingCache cache(kSmallShape);
  EXPECT_EQ(cache.bytes(), 0);
  const torch::Tensor keys = random_keys(6, 8);
  feed_keys(cache, keys.narrow(kSeqAxis, 0, 5));
  EXPECT_EQ(cache.bytes(), 2 * 2 * 2 * (5 * 4 + 4 * 4));  // 2·L·B·H·(P·D + 4·D)
  cache.begin({torch::zeros({1, 1}, torch::kInt64)});
  cache.update(0, torch::full({1, 2, 1, 4}, 1e3, torch::kFloat64), torch::full({1, 2, 1, 4}, 1e3, torch::kFloat64));
  cache.abandon();
  EXPECT_EQ(cache.bytes(), 2 * 2 * 2 * (5 * 4 + 4 * 4));
  const KeyValues kv = feed_keys(cache, keys.narrow(kSeqAxis, 5, 1));
  EXPECT_LE(max_abs_diff(kv.keys, keys), 0.05);
  EXPECT_EQ(cache.can_give_back(), 0);
  cache.reset();
  EXPECT_EQ(cache.bytes(), 0);
}

}  // namespace
}  // namespace kvbook
