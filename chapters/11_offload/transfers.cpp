#include "chapters/11_offload/transfers.h"

#include <fmt/format.h>

#include "chapters/11_offload/offloaded_cache.h"
#include "common/generate.h"
#include "common/ids.h"

namespace kvbook {

void show_transfers(const NamedModel& model, const ProgramOptions& options, const Conversation& said) {
  Gpt2 gpt2(model.checkpoint);
  const CacheOptions sizes = cache_options(options, gpt2->shape());
  OffloadedCache cache(gpt2->shape(), gpt2->shape().context, sizes.resident_layers, sizes.spill);
  const GenerateOptions asked{.new_tokens = said.answers.front().new_ids.size(1), .chunk = options.chunk};
  const Timings timings = generate(gpt2, cache, to_row(said.inputs.front()), asked).timings;
  const OffloadedCache::Transfers& moved = cache.transfers();
  const double seconds = timings.token_times.back() - timings.start;
  fmt::print("{} of {} layers have room in memory, {:.2f} MB; {:.2f} MB in the file\n", cache.resident_layers(),
             gpt2->shape().layers, static_cast<double>(cache.bytes()) / 1e6,
             static_cast<double>(cache.file_bytes()) / 1e6);
  fmt::print("read back {:.1f} MB and wrote {:.2f} MB · waited {:.1f} ms, {:.0f} % of the time\n",
             static_cast<double>(moved.bytes_read) / 1e6, static_cast<double>(moved.bytes_written) / 1e6,
             1e3 * moved.seconds_waited, 100 * moved.seconds_waited / seconds);
}

}  // namespace kvbook
