#include "tests/failures/failures.h"

#include <fmt/format.h>

#include "common/usage_error.h"

namespace kvbook {

// One file each, NAME.cpp.
Failure reserves_eight_rows();
Failure float32_buffers();
Failure position_stands_still();
Failure every_layer_moves_the_position();
Failure refuses_the_last_slot();
Failure overwrites_the_last_slot();
Failure feeds_the_last_token();
Failure doubles_when_full();
Failure context_set_twice();
Failure stores_the_padding();
Failure one_mask_for_all_rows();
Failure mask_without_the_past();
Failure prefill_without_a_mask();
Failure unwritten_slots_visible();
Failure evicts_before_it_attends();
Failure no_band_in_a_chunk();
Failure shifts_in_update();
Failure writes_a_chunk_at_once();
Failure masks_a_ring_by_column();
Failure resets_on_another_batch();
Failure trusts_a_hash();
Failure publishes_what_failed();
Failure one_mask_for_all_layers();
Failure windows_on_the_wrong_layers();
Failure fetches_over_a_buffer_in_use();
Failure reads_before_it_is_written();

const std::vector<Failure>& failures() {
  static const std::vector<Failure> list = {
      reserves_eight_rows(),
      float32_buffers(),
      position_stands_still(),
      every_layer_moves_the_position(),
      stores_the_padding(),
      one_mask_for_all_rows(),
      refuses_the_last_slot(),
      overwrites_the_last_slot(),
      feeds_the_last_token(),
      doubles_when_full(),
      context_set_twice(),
      mask_without_the_past(),
      prefill_without_a_mask(),
      unwritten_slots_visible(),
      evicts_before_it_attends(),
      no_band_in_a_chunk(),
      shifts_in_update(),
      writes_a_chunk_at_once(),
      masks_a_ring_by_column(),
      resets_on_another_batch(),
      trusts_a_hash(),
      publishes_what_failed(),
      one_mask_for_all_layers(),
      windows_on_the_wrong_layers(),
      fetches_over_a_buffer_in_use(),
      reads_before_it_is_written(),
  };
  return list;
}

const Failure& find_failure(const std::string& name) {
  for (const Failure& failure : failures()) {
    if (failure.chapter.name == name) return failure;
  }
  throw UsageError(fmt::format("there is no failure called '{}': --list names them", name));
}

Chapter broken(const std::string& right, const std::string& name, const std::string& change,
               decltype(Chapter::make_cache) make_cache) {
  Chapter chapter = find_chapter(right);
  chapter.name = name;
  chapter.same_tokens_as = right;
  chapter.change = change;
  if (make_cache) chapter.make_cache = std::move(make_cache);
  return chapter;
}

}  // namespace kvbook
