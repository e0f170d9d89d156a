#include "workshop/checker/property.h"

#include <fmt/format.h>

#include "workshop/checker/checked_cache.h"

namespace kvbook {
namespace {

/// A test of the conformance suite, in one of its views of the cache: float64 and float32, and every window.
std::string suite(const std::string& test, const char* view) {
  return fmt::format("EveryCache/CacheConformance.{}/{}_", test, view);
}

std::string own(const std::string& test) { return "Workshop." + test; }

std::vector<Promises> make_all_promises() {
  return {
      {"02_cat_cache",
       "remember",
       {{"a prompt: each token sees itself and all before it",
         {own("APromptGivesTheLogitsOfTheFullPass")},
         "the logits of a pass without a cache",
         "several tokens need a mask: bool [T, T], true where j <= i"},
        {"then one token at a time",
         {own("TokenByTokenGivesTheLogitsOfTheFullPass"), suite("Case12EqualLogitsGiveTheLowestId", kPlain),
          suite("Case25TheFirstTokenIsTimedAfterThePromptAndTheRestOneByOne", kPlain),
          suite("Case26ADecodeStepHasOneQueryToken", kPlain)},
         "the logits of a pass without a cache",
         "join old and new along kSeqAxis, oldest first; return them all"},
        {"the position moves once a forward",
         {suite("Case08OneForwardOfSeveralTokensAdvancesTheLengthByThatMany", kPlain),
          suite("PositionsGoOnFromWhatIsCommitted", kPlain)},
         "T new tokens move length() by T, not by T a layer",
         "do not count: length() is the position of the next token"},
        {"the dtype is the model's",
         {suite("Case09TheCacheTakesTheDtypeOfTheModel", kPlain),
          suite("Case13InBFloat16TokensAgreeWhereTheGapIsWideEnough", kPlain)},
         "keys and values of float64, float32, bfloat16, as they came",
         "what you make yourself, make with options()"},
        {"after reset() it is as good as new",
         {suite("Case04AResetCacheIsAsGoodAsNew", kPlain), suite("Case02ALaterTokenDoesNotMoveEarlierLogits", kPlain),
          suite("Case01AnySplitOfThePromptGivesTheLogitsOfTheFullPass", kOneByOne),
          suite("GreedyTokensAreThoseOfTheFullRecompute", kOneByOne)},
         "length() and bytes() are 0; tokens are those of a fresh cache",
         "call KVCache::reset() and let every tensor go"},
        {"rows of a batch stay apart",
         {suite("ThreeRowsGiveWhatEachGivesAlone", kPlain)},
         "three rows at once give the tokens that each gives alone",
         "keep axis B as it comes; rows() says how many there are"},
        {"bytes() is what the formula says",
         {own("BytesAreThoseOfTheFormulaForSomeNumberOfSlots")},
         "2·L·B·H_kv·slots·D·bytes of the dtype; 0 while empty",
         "add up nbytes() of all keys and values that you keep"},
        {"another batch size or dtype is refused until reset()",
         {suite("Case10AnotherBatchSizeIsRefusedByNameAndNothingIsWritten", kPlain),
          suite("AnotherDtypeIsRefusedByNameUntilReset", kPlain)},
         "a c10::ValueError that names reset; then all goes on",
         "begin update() with check_update(): it refuses for you"},
        {"a forward that fails costs nothing",
         {suite("AFirstForwardThatFailsBindsNothing", kPlain),
          suite("Case41ARetryAfterAFaultEqualsTheRunWithoutIt", kOneByOne),
          suite("Case03WhatAnAbandonedForwardLeftInTheSlotsGetsNoWeight", kOneByOne)},
         "the logits and the bytes of a run in which nothing failed",
         "on_abandon(): cut every layer back to length(), to nothing at 0"},
        {"it ends where the model's context ends",
         {suite("Case05GenerationEndsWithTheContext", kPlain),
          suite("Case05APromptLongerThanTheContextIsRefusedAndNothingHasChanged", kPlain),
          suite("Case05ATokenPastTheContextIsRefusedByTheModelBeforeTheCacheIsAsked", kPlain)},
         "tokens up to the context's last position, none after it",
         "have room for shape().context tokens; the model refuses more"},
        {"a thousand steps leave nothing behind",
         {suite("Case11ManyStepsInAThreadWithoutAGuardKeepNoGraphAndNoMemory", kPlain)},
         "no more bytes after the last round through the context than after the first",
         "keep nothing that grows but keys and values; reset() frees them"}}},
      {"03_masked_offsets",
       "chunks",
       {{"a prompt in chunks of any size",
         {suite("Case01AnySplitOfThePromptGivesTheLogitsOfTheFullPass", kPlain),
          suite("Case07AChunkOnAFullWindowSeesWhatTheBandedOracleSees", kPlain)},
         "the logits of a pass without a cache, however it is split",
         "with P tokens held: bool [T, P + T], true where j <= P + i"},
        {"a later token of a chunk moves no earlier one",
         {suite("Case02ALaterTokenDoesNotMoveEarlierLogitsOnACacheWithHistory", kPlain)},
         "the same hidden states for the tokens before it",
         "row i of the mask is position P + i: it ends with that token"},
        {"chunks and single tokens generate the same",
         {suite("GreedyTokensAreThoseOfTheFullRecompute", kPlain)},
         "the tokens of a pass without a cache",
         "make the mask anew in each on_begin(): P has moved"},
        {"a chunk that fails costs nothing",
         {suite("Case41ARetryAfterAFaultEqualsTheRunWithoutIt", kPlain),
          suite("Case03WhatAnAbandonedForwardLeftInTheSlotsGetsNoWeight", kPlain)},
         "the logits and the bytes of a run in which nothing failed",
         "on_abandon() takes back T tokens, not one"}}},
      {"04_preallocated",
       "fixed memory",
       {{"the memory is made once, for the capacity",
         {suite("BytesAreThoseOfTheFormula", kFixed)},
         "bytes() of C slots from the first forward on",
         "at the first update: [L, B, H_kv, C, D], C = options.capacity"},
        {"tokens are written in place",
         {own("KeysAndValuesStayWhereTheyAre")},
         "keys and values at the same address in every forward",
         "copy_ into slots [P, P + T); return narrow views up to there"},
        {"a step copies its new tokens and nothing else",
         {suite("BytesCopiedAStepAreThoseOfTheFormula", kFixed)},
         "2·L·B·H_kv·T·D numbers written by copying, whatever P is",
         "nothing that is held may move or be joined anew"},
        {"a token too many is refused before anything is written",
         {own("ATokenTooManyIsRefusedBeforeAnythingIsWritten"),
          suite("Case05AFullCacheRefusesAnotherTokenAndKeepsWhatItHolds", kFixed)},
         "a c10::IndexError from begin() when P + T > C; then all goes on",
         "TORCH_CHECK_INDEX(length() + T <= C, ...) in on_begin()"}}},
      {"05_sliding_window",
       "a window",
       {{"the window bounds the memory",
         {suite("BytesAreThoseOfTheFormula", kSliding),
          suite("Case11ManyStepsInAThreadWithoutAGuardKeepNoGraphAndNoMemory", kSlidingThree)},
         "bytes() of W slots, however many tokens have come",
         "W = options.window slots are enough; evict in on_commit()"},
        {"a query sees the last W tokens, itself included",
         {suite("Case01AnySplitOfThePromptGivesTheLogitsOfTheFullPass", kSliding),
          suite("GreedyTokensAreThoseOfTheFullRecompute", kSliding), suite("Case04AResetCacheIsAsGoodAsNew", kSliding),
          suite("Case05GenerationEndsWithTheContext", kSliding)},
         "the logits of a pass whose mask is a band of width W",
         "h = min(P, W - 1) old keys: true where h + i - W < j <= h + i"},
        {"a chunk on a full window attends first and evicts after",
         {suite("Case07AChunkOnAFullWindowSeesWhatTheBandedOracleSees", kSliding)},
         "the logits of the same band, for every token of the chunk",
         "return h old keys and all T new ones; evict in on_commit()"},
        {"a forward that fails on a full window costs nothing",
         {suite("Case41ARetryAfterAFaultEqualsTheRunWithoutIt", kSliding),
          suite("Case03WhatAnAbandonedForwardLeftInTheSlotsGetsNoWeight", kSliding)},
         "the logits and the bytes of a run in which nothing failed",
         "update() destroys no key that a retry sees: on_commit() shifts"}}},
  };
}

}  // namespace

const std::vector<Promises>& all_promises() {
  static const std::vector<Promises> list = make_all_promises();
  return list;
}

}  // namespace kvbook
