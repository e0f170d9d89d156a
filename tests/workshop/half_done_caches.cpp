#include "tests/workshop/half_done_caches.h"

#include <cstdlib>
#include <stdexcept>

#include "chapters/03_masked_offsets/masked_offsets_cache.h"
#include "common/forwarding_cache.h"

namespace kvbook {
namespace {

/// Chapter 3's cache, to be spoilt in one place.
struct Inner {
  explicit Inner(const ModelShape& shape) : inner(shape) {}
  MaskedOffsetsCache inner;
};

class HalfDone : private Inner, public ForwardingCache {
 public:
  HalfDone(const ModelShape& shape, const CacheOptions&) : Inner(shape), ForwardingCache(inner) {}
};

class NoOffset final : public HalfDone {
 public:
  using HalfDone::HalfDone;
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    KeyValues kv = HalfDone::update(layer, key, value);
    if (kv.visible.defined()) kv.visible = torch::ones_like(kv.visible).tril();  // as on an empty cache
    return kv;
  }
};

class AngryReset final : public HalfDone {
 public:
  using HalfDone::HalfDone;
  void reset() override { throw std::runtime_error("reset() is not mine to give"); }
};

class ThrowsAnInt final : public HalfDone {
 public:
  using HalfDone::HalfDone;
  KeyValues update(int64_t, const torch::Tensor&, const torch::Tensor&) override { throw 42; }
};

class ThrowsANovel final : public HalfDone {
 public:
  using HalfDone::HalfDone;
  KeyValues update(int64_t, const torch::Tensor&, const torch::Tensor&) override {
    std::string novel;
    for (int word = 0; word < 100000; ++word) novel += "and then ";
    throw std::runtime_error(novel);
  }
};

class NoConstructor final : public HalfDone {
 public:
  NoConstructor(const ModelShape& shape, const CacheOptions& options) : HalfDone(shape, options) {
    throw std::logic_error("not today");
  }
};

class Crashes final : public HalfDone {
 public:
  using HalfDone::HalfDone;
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    if (length() == 4) std::abort();
    return HalfDone::update(layer, key, value);
  }
};

class ReturnsNothing final : public HalfDone {
 public:
  using HalfDone::HalfDone;
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    return {};
  }
};

class NeverEnds final : public HalfDone {
 public:
  using HalfDone::HalfDone;
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    for (volatile bool more = true; more;) continue;
    return HalfDone::update(layer, key, value);
  }
};

class Quits final : public HalfDone {
 public:
  using HalfDone::HalfDone;
  KeyValues update(int64_t, const torch::Tensor&, const torch::Tensor&) override { std::_Exit(0); }
};

class Forgets final : public KVCache {
 public:
  Forgets(const ModelShape& shape, const CacheOptions&) : KVCache(shape) {}
  KeyValues update(int64_t layer, const torch::Tensor& key, const torch::Tensor& value) override {
    check_update(layer, key, value);
    const int64_t T = new_tokens();
    return {key, value, torch::ones({T, T}, torch::kBool).tril()};
  }
  int64_t bytes() const override { return 0; }
};

template <typename Cache>
Chapter half_done(const std::string& name) {
  return {.name = name, .change = "half done", .make_cache = [](const ModelShape& shape, const CacheOptions& options) {
            return std::make_unique<Cache>(shape, options);
          }};
}

}  // namespace

std::vector<Chapter> half_done_caches() {
  return {half_done<NoOffset>("no_offset"),
          half_done<AngryReset>("angry_reset"),
          half_done<ThrowsAnInt>("throws_an_int"),
          half_done<ThrowsANovel>("throws_a_novel"),
          half_done<NoConstructor>("no_constructor"),
          half_done<Crashes>("crashes"),
          half_done<ReturnsNothing>("returns_nothing"),
          half_done<NeverEnds>("never_ends"),
          half_done<Quits>("quits"),
          half_done<Forgets>("forgets")};
}

}  // namespace kvbook
