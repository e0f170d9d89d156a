// Chapter 11's own promises: what lies in the file, what is on its way, and what happens when the disk says no.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>

#include "chapters/04_preallocated/preallocated_cache.h"
#include "chapters/11_offload/offloaded_cache.h"
#include "tests/support/caches.h"
#include "tests/support/golden.h"
#include "tests/support/metered_cache.h"
#include "tests/support/oracle.h"
#include "tests/support/spilling.h"
#include "tests/support/tensors.h"

namespace kvbook {
namespace {

std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

class Tiny : public testing::Test {  // three layers: with two in memory all three take turns
 protected:
  torch::Tensor in_memory(const std::vector<int64_t>& sizes) {
    PreallocatedCache cache(model_->shape(), model_->shape().context);
    return in_chunks(model_, cache, ids_, sizes);
  }

  Gpt2 model_ = Gpt2(golden_checkpoint("tiny"));
  const torch::Tensor ids_ = to_row({12, 80, 5, 33, 96, 2, 41, 7, 7, 60, 3, 19});
  const TemporaryFolder folder_;
};

TEST(TransferQueue, RunsJobsInTheirOrderAndDropsThoseBehindOneThatFails) {
  TransferQueue queue;
  std::vector<int> ran;
  for (const int job : {1, 2, 3}) queue.add([&, job] { ran.push_back(job); });
  queue.wait();
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
  std::promise<void> all_there;  // else the first fails before the second one is added
  const auto signal = all_there.get_future().share();
  queue.add([signal] {
    signal.wait();
    TORCH_CHECK(false, "the disk is gone");
  });
  queue.add([&] { ran.push_back(4); });
  all_there.set_value();
  EXPECT_NE(message_of([&] { queue.wait(); }).find("the disk is gone"), std::string::npos);
  EXPECT_EQ(ran.size(), 3U);
  queue.add([&] { ran.push_back(5); });
  EXPECT_NO_THROW(queue.wait());  // as new
  EXPECT_EQ(ran.back(), 5);
}

TEST(TransferQueue, ForgetsWhatIsDropped) {
  TransferQueue queue;
  queue.add([] { TORCH_CHECK(false, "nobody hears this"); });
  queue.drop_and_forget();
  EXPECT_NO_THROW(queue.wait());
}

TEST(SpillFile, GivesBackWhatWasWrittenAndLeavesNoNameBehind) {
  const TemporaryFolder folder;
  const std::string text = "keys and values";
  std::string back(text.size(), ' ');
  {
    SpillFile file(folder.path(), 1000);
    EXPECT_TRUE(folder.empty());
    file.write(985, text.data(), 15);
    file.read(985, back.data(), 15);
  }
  EXPECT_EQ(back, text);
  EXPECT_EQ(folder.descriptor(), -1);
}

TEST(SpillFile, NamesTheFolderThatIsNotThere) {
  const std::string message = message_of([] { SpillFile file("/nowhere/at/all", 10); });
  EXPECT_NE(message.find("'/nowhere/at/all'"), std::string::npos) << message;
  EXPECT_NE(message.find("another folder"), std::string::npos) << message;
}

TEST(OffloadedCache, KeepsSoManyLayersInMemoryAndTheOthersInTheFile) {
  for (const int64_t N : {1, 2, 3, 4}) {
    const TemporaryFolder folder;
    constexpr int64_t kCapacity = 4096;  // some hundred blocks of a disk
    OffloadedCache inner(kFiveLayers, kCapacity, N, folder.path());
    MeteredCache cache(inner);
    feed_ones(cache, 3);
    feed_ones(cache, 1);
    EXPECT_EQ(inner.bytes(), N * kCapacity * kFiveLayersToken);
    EXPECT_EQ(cache.held(), N * kCapacity * kFiveLayersToken);  // the tensors, weighed
    const int64_t stay = std::max<int64_t>(0, N - 2);
    EXPECT_EQ(inner.file_bytes(), (5 - stay) * kCapacity * kFiveLayersToken);
    struct stat file {};
    ASSERT_EQ(fstat(folder.descriptor(), &file), 0);
    EXPECT_EQ(file.st_size, inner.file_bytes());
    EXPECT_GE(file.st_blocks * 512, inner.file_bytes()) << "the space is not reserved";
  }
}

TEST(OffloadedCache, WithRoomForAllLayersNoFileIsMade) {
  const TemporaryFolder folder;
  OffloadedCache cache(kFiveLayers, 16, 9, folder.path());
  feed_ones(cache, 3);
  EXPECT_EQ(folder.descriptor(), -1);
  EXPECT_EQ(cache.resident_layers(), 5);
  EXPECT_EQ(cache.file_bytes(), 0);
}

TEST(OffloadedCache, AForwardReadsThePastOfEveryLayerThatSharesABufferAndWritesTheTokensOfThoseThatDoNotStay) {
  for (const int64_t N : {1, 2, 3, 4}) {
    const TemporaryFolder folder;
    OffloadedCache cache(kFiveLayers, 16, N, folder.path());
    const int64_t leave = 5 - std::max<int64_t>(0, N - 2);
    const int64_t share = N == 4 ? 2 : leave;  // of layers 2, 3, 4 in two buffers the middle one is alone in its own
    int64_t read = 0, written = 0;
    for (const int64_t T : {4, 1, 2}) {
      const int64_t P = cache.length();
      feed_ones(cache, T);
      read += share * P * kFiveLayersToken;
      written += leave * T * kFiveLayersToken;
      const int64_t first_of_next = (P + T) * kFiveLayersToken;  // on its way since commit
      EXPECT_EQ(cache.transfers().bytes_read, read + first_of_next) << "N = " << N;
      EXPECT_EQ(cache.transfers().bytes_written, written) << "N = " << N;
    }
  }
}

TEST(OffloadedCache, TheNextLayerIsOnItsWayWhileThisOneComputes) {
  const TemporaryFolder folder;
  OffloadedCache cache(kFiveLayers, 16, 2, folder.path());
  feed_ones(cache, 4);
  const int64_t before = cache.transfers().bytes_read;  // layer 0 is on its way
  feed_ones(cache, 1, [&](int64_t layer) {
    const int64_t ahead = std::min<int64_t>(layer + 1, 4);
    EXPECT_EQ(cache.transfers().bytes_read - before, ahead * 4 * kFiveLayersToken) << "behind layer " << layer;
  });
}

TEST(OffloadedCache, LayersThatStayAreNeverMoved) {
  const TemporaryFolder folder;
  OffloadedCache cache(kFiveLayers, 16, 4, folder.path());  // layers 0 and 1 stay
  feed_ones(cache, 4);
  const int64_t read = cache.transfers().bytes_read, written = cache.transfers().bytes_written;
  cache.begin({torch::zeros({1, 1}, torch::kInt64)});
  const torch::Tensor key = torch::ones({1, 2, 1, 4});
  cache.update(0, key, key);
  EXPECT_EQ(cache.transfers().bytes_read, read);
  cache.update(1, key, key);
  EXPECT_EQ(cache.transfers().bytes_written, written);
}

TEST(OffloadedCache, WhatWasOnItsWayWhenAForwardIsAbandonedIsFetchedAgain) {
  ModelShape shape = kFiveLayers;
  shape.head_size = 64;
  const TemporaryFolder folder;
  OffloadedCache cache(shape, 8192, 2, folder.path());
  const auto key_of = [](int64_t layer, int64_t T) { return torch::full({1, 2, T, 64}, 10.0 + layer); };
  cache.begin({torch::zeros({1, 4}, torch::kInt64)});
  for (int64_t layer = 0; layer < 5; ++layer) cache.update(layer, key_of(layer, 4), key_of(layer, 4));
  cache.commit();
  cache.begin({torch::zeros({1, 8000}, torch::kInt64)});
  cache.update(0, key_of(0, 8000), key_of(0, 8000));  // eight megabytes to be written, behind them layer 1's past
  cache.abandon();
  cache.begin({torch::zeros({1, 1}, torch::kInt64)});
  for (int64_t layer = 0; layer < 5; ++layer) {
    const KeyValues kv = cache.update(layer, key_of(layer, 1), key_of(layer, 1));
    EXPECT_TRUE(kv.keys.eq(10.0 + static_cast<double>(layer)).all().item<bool>()) << "layer " << layer;
  }
  cache.commit();
}

TEST_F(Tiny, HasTheLogitsOfACacheInMemoryWhateverStays) {
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{12}, {5, 1, 1, 1, 3, 1}, {1, 4, 7}}) {
    for (const int64_t N : {1, 2, 3}) {
      OffloadedCache cache(model_->shape(), 64, N, folder_.path());
      EXPECT_EQ(max_abs_diff(in_chunks(model_, cache, ids_, sizes), in_memory(sizes)), 0.0) << "N = " << N;
    }
  }
}

TEST_F(Tiny, AFaultAtAnyLayerCostsNothing) {
  const torch::Tensor want = in_memory({6, 1, 5});
  for (const int64_t N : {1, 2, 3}) {
    for (int64_t last = 0; last < 3; ++last) {
      OffloadedCache cache(model_->shape(), 64, N, folder_.path());
      in_chunks(model_, cache, ids_.narrow(1, 0, 6), {6});
      cache.begin({ids_.narrow(1, 0, 4)});
      const ModelShape shape = model_->shape();
      const torch::Tensor bad = torch::full({1, shape.kv_heads, 4, shape.head_size}, 1e4, torch::kFloat64);
      for (int64_t layer = 0; layer <= last; ++layer) cache.update(layer, bad, bad);
      cache.abandon();
      EXPECT_LE(max_abs_diff(in_chunks(model_, cache, ids_.narrow(1, 6, 6), {1, 5}), want.narrow(1, 6, 6)), 1e-9);
    }
  }
}

TEST_F(Tiny, AFullDiskIsAnErrorBeforeAnythingIsHeldAndAllGoesOnWhenThereIsRoom) {
  OffloadedCache cache(model_->shape(), 64, 2, folder_.path());
  {
    const FileSizeLimit limit(1000);
    const std::string message = message_of([&] { model_->hidden({ids_}, cache); });
    EXPECT_NE(message.find("cannot reserve"), std::string::npos) << message;
    EXPECT_NE(message.find(folder_.path()), std::string::npos) << message;
    EXPECT_NE(message.find("make room"), std::string::npos) << message;
    EXPECT_EQ(cache.length(), 0);
    cache.abandon();
    EXPECT_EQ(cache.bytes(), 0);
    EXPECT_EQ(folder_.descriptor(), -1);
  }
  EXPECT_EQ(max_abs_diff(in_chunks(model_, cache, ids_, {12}), in_memory({12})), 0.0);
}

TEST_F(Tiny, AWriteThatFailsSurfacesAndARetryIsRight) {
  const torch::Tensor want = in_memory({6, 1, 5});
  OffloadedCache cache(model_->shape(), 64, 2, folder_.path());
  in_chunks(model_, cache, ids_.narrow(1, 0, 6), {6});
  {
    const FileSizeLimit limit(10);  // as a disk that is taken away
    const std::string message = message_of([&] { model_->hidden({ids_.narrow(1, 6, 1)}, cache); });
    EXPECT_NE(message.find("cannot write"), std::string::npos) << message;
    EXPECT_EQ(cache.length(), 6);
  }
  EXPECT_LE(max_abs_diff(in_chunks(model_, cache, ids_.narrow(1, 6, 6), {1, 5}), want.narrow(1, 6, 6)), 1e-9);
}

TEST_F(Tiny, AWriteOfTheLastLayerThatFailsIsNotCommitted) {
  OffloadedCache cache(model_->shape(), 64, 2, folder_.path());
  in_chunks(model_, cache, ids_.narrow(1, 0, 6), {6});
  const ModelShape shape = model_->shape();
  const torch::Tensor key = torch::ones({1, shape.kv_heads, 1, shape.head_size}, torch::kFloat64);
  const int64_t token = key_value_bytes(shape, 1, 1, 8) / shape.layers;
  const FileSizeLimit limit(2 * 64 * token);  // the file ends before layer 2
  cache.begin({ids_.narrow(1, 6, 1)});
  cache.update(0, key, key);
  cache.update(1, key, key);
  cache.update(2, key, key);
  const std::string message = message_of([&] { cache.commit(); });
  EXPECT_NE(message.find("cannot write"), std::string::npos) << message;
  EXPECT_EQ(cache.length(), 6);
  EXPECT_NE(message_of([&] { cache.commit(); }).find("abandon"), std::string::npos);  // nor a second time
  EXPECT_EQ(cache.length(), 6);
}

TEST_F(Tiny, AForwardInWhichAnUpdateFailedIsNotGoneOnWith) {
  OffloadedCache cache(model_->shape(), 64, 2, folder_.path());
  in_chunks(model_, cache, ids_.narrow(1, 0, 6), {6});
  const ModelShape shape = model_->shape();
  const torch::Tensor key = torch::ones({1, shape.kv_heads, 1, shape.head_size}, torch::kFloat64);
  cache.begin({ids_.narrow(1, 6, 1)});
  {
    const FileSizeLimit limit(10);
    cache.update(0, key, key);
    EXPECT_NE(message_of([&] { cache.update(1, key, key); }).find("cannot write"), std::string::npos);
  }
  EXPECT_NE(message_of([&] { cache.update(2, key, key); }).find("abandon"), std::string::npos);
  EXPECT_THROW(cache.commit(), c10::Error);
  EXPECT_EQ(cache.length(), 6);
  const torch::Tensor want = in_memory({6, 1, 5});
  EXPECT_LE(max_abs_diff(in_chunks(model_, cache, ids_.narrow(1, 6, 6), {1, 5}), want.narrow(1, 6, 6)), 1e-9);
}

TEST(OffloadedCache, AFileCutShortInTheMiddleOfAForwardIsAnErrorInThatForward) {
  for (const int64_t N : {1, 2, 3}) {
    for (int64_t layer = 0; layer < 4; ++layer) {
      const TemporaryFolder folder;
      OffloadedCache cache(kFiveLayers, 16, N, folder.path());
      feed_ones(cache, 4);
      const std::string message = message_of([&] {
        feed_ones(cache, 1, [&](int64_t done) {
          if (done == layer) TORCH_CHECK(ftruncate(folder.descriptor(), 0) == 0);
        });
      });
      EXPECT_NE(message.find("cut short"), std::string::npos) << "N = " << N << ", behind layer " << layer << message;
      EXPECT_EQ(cache.length(), 4);
    }
  }
}

TEST(OffloadedCache, EveryLayerGetsItsOwnTokensBackWhateverStays) {
  const auto keys_of = [](int64_t layer, int64_t first, int64_t T) {  // each says its layer and its position
    return (torch::arange(first, first + T, torch::kFloat32) + 100.0 * static_cast<double>(layer))
        .view({1, 1, T, 1})
        .expand({1, 2, T, 4});
  };
  for (int64_t N = 1; N <= 5; ++N) {
    OffloadedCache cache(kFiveLayers, 16, N);
    const auto feed = [&](int64_t T, int64_t layers) {
      const int64_t P = cache.length();
      cache.begin({torch::zeros({1, T}, torch::kInt64)});
      for (int64_t layer = 0; layer < layers; ++layer) {
        const torch::Tensor fresh = keys_of(layer, P, T), all = keys_of(layer, 0, P + T);
        const KeyValues kv = cache.update(layer, fresh, -fresh);
        EXPECT_TRUE(kv.keys.equal(all)) << "N = " << N << ", layer " << layer << ", P = " << P;
        EXPECT_TRUE(kv.values.equal(-all)) << "N = " << N << ", layer " << layer << ", P = " << P;
      }
    };
    for (const int64_t T : {4, 1, 3}) {
      feed(T, 5);
      cache.commit();
      feed(2, T);  // and is given up
      cache.abandon();
    }
    cache.truncate(5);
    feed(2, 5);
    cache.commit();
    EXPECT_EQ(cache.length(), 7);
  }
}

TEST_F(Tiny, AFileCutShortIsAnErrorInUpdateAndTheTokensFedAgainAreRight) {
  OffloadedCache cache(model_->shape(), 64, 2, folder_.path());
  in_chunks(model_, cache, ids_.narrow(1, 0, 6), {6});
  ASSERT_EQ(ftruncate(folder_.descriptor(), 0), 0);
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_NO_THROW(cache.begin({ids_.narrow(1, 6, 1)}));
    const std::string message = message_of([&] { model_->hidden({ids_.narrow(1, 6, 1)}, cache); });
    EXPECT_NE(message.find("cut short"), std::string::npos) << message;
    EXPECT_NE(message.find("reset()"), std::string::npos) << message;
    EXPECT_EQ(cache.length(), 6);
  }
  cache.reset();
  EXPECT_EQ(max_abs_diff(in_chunks(model_, cache, ids_, {7, 5}), in_memory({7, 5})), 0.0);
}

TEST_F(Tiny, ResetAndTheEndCloseTheFile) {
  {
    OffloadedCache cache(model_->shape(), 64, 2, folder_.path());
    model_->hidden({ids_}, cache);
    EXPECT_NE(folder_.descriptor(), -1);
    cache.reset();
    EXPECT_EQ(folder_.descriptor(), -1);
    model_->hidden({ids_}, cache);
    EXPECT_NE(folder_.descriptor(), -1);
  }
  EXPECT_EQ(folder_.descriptor(), -1);
  EXPECT_TRUE(folder_.empty());
}

TEST(OffloadedCache, RefusesNoCapacityAndNoLayerInMemory) {
  EXPECT_THROW(OffloadedCache(kFiveLayers, 0, 2), c10::ValueError);
  EXPECT_THROW(OffloadedCache(kFiveLayers, 16, 0), c10::ValueError);
}

}  // namespace
}  // namespace kvbook
