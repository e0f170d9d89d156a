#include "common/batch_generation.h"

#include <algorithm>
#include <deque>

#include "common/ids.h"
#include "common/out_of_pages.h"

namespace kvbook {
namespace {

/// A row of the cache and the request that it works on, if any.
struct BatchRow {
  std::optional<size_t> request = {};
  std::vector<int64_t> to_feed = {};  // what is left of the prompt, or the token chosen last; empty: nothing to do
  bool in_prompt = false;
  int64_t admitted = 0;  // in which order, from 1
};

/// Some rows of the cache and the tokens that each is to be fed.
struct Feed {
  std::vector<int64_t> rows;
  std::vector<std::vector<int64_t>> tokens;
};

// ANCHOR: step
/// The tokens as a rectangle, filled up with id 0.
Step padded_step(const Feed& feed, bool pad_left) {
  const auto B = static_cast<int64_t>(feed.rows.size());
  int64_t T = 1;
  for (const auto& tokens : feed.tokens) T = std::max(T, static_cast<int64_t>(tokens.size()));
  Step step{.ids = torch::zeros({B, T}, torch::kInt64),
            .counts = torch::empty({B}, torch::kInt64),
            .rows = to_row(feed.rows)[0],
            .pad_left = pad_left};
  for (int64_t b = 0; b < B; ++b) {
    const auto n = static_cast<int64_t>(feed.tokens[b].size());
    step.counts[b] = n;
    if (n > 0) step.ids[b].narrow(0, pad_left ? T - n : 0, n).copy_(to_row(feed.tokens[b])[0]);
  }
  return step;
}

/// The hidden state of each row's last token: [B, T, E] -> [B, E]. A row without one gives that of its first column.
torch::Tensor last_of_each(const torch::Tensor& hidden, const Step& step) {
  const int64_t T = hidden.size(1);
  const torch::Tensor last = step.pad_left ? torch::full_like(step.counts, T - 1) : (step.counts - 1).clamp_min(0);
  return hidden.gather(1, last.view({-1, 1, 1}).expand({-1, 1, hidden.size(2)})).squeeze(1);
}
// ANCHOR_END: step

class BatchLoop {
 public:
  BatchLoop(Gpt2& model, KVCache& cache, const std::vector<Request>& requests, const BatchOptions& options)
      : model_(model), cache_(cache), requests_(requests), options_(options) {
    const Gpt2Config& config = model->config();
    TORCH_CHECK_VALUE(!requests.empty(), "there is no request");
    TORCH_CHECK_VALUE(options.rows >= 1, "at least 1 row is needed, not ", options.rows);
    TORCH_CHECK_VALUE(cache.ragged(),
                      "several requests need a cache whose rows have lengths of their own "
                      "(07_ragged_batch, 08_paged)");
    rows_.resize(options.rows);
    for (int64_t row = 0; row < options.rows; ++row) {
      TORCH_CHECK_VALUE(cache.length(row) == 0, "row ", row, " of the cache holds ", cache.length(row),
                        " tokens: call reset() first");
    }
    TORCH_CHECK_VALUE(options.chunk.value_or(1) >= 1, "a chunk has at least 1 token, not ", *options.chunk);
    for (size_t request = 0; request < requests.size(); ++request) {
      check_ids(to_row(requests[request].prompt), config.vocabulary);
      const auto tokens = static_cast<int64_t>(requests[request].prompt.size());
      const GenerateOptions alone{
          .new_tokens = requests[request].new_tokens, .stop_at = options.stop_at, .clock = options.clock};
      decoders_.emplace_back(alone, tokens, room_after(tokens, config.context));
      texts_.push_back(requests[request].prompt);
      waiting_.push_back(request);
    }
  }

  // ANCHOR: loop
  BatchGeneration run() {
    while (admit()) {
      const bool prompts = any_in_prompt();
      Feed feed;
      for (int64_t row = 0; row < options_.rows; ++row) {
        if (takes_part(rows_[row], prompts)) {
          feed.rows.push_back(row);
          feed.tokens.push_back(take(rows_[row]));
        }
      }
      forward(feed);
    }
    BatchGeneration done = std::move(done_);
    for (GreedyDecoder& decoder : decoders_) done.answers.push_back(decoder.result());
    return done;
  }
  // ANCHOR_END: loop

 private:
  static bool works(const BatchRow& row) { return !row.to_feed.empty(); }
  bool is_static() const { return options_.batching == Batching::kStatic; }
  bool any_in_prompt() const {
    return std::any_of(rows_.begin(), rows_.end(), [](const auto& r) { return r.in_prompt; });
  }

  // ANCHOR: admit
  /// Gives free rows to waiting requests. Returns whether there is anything left to do.
  bool admit() {
    const bool any_works = std::any_of(rows_.begin(), rows_.end(), works);
    if (is_static() && any_works) return true;  // nobody joins a batch that has begun
    if (!any_works) admits_ = true;
    for (int64_t row = 0; row < options_.rows; ++row) {
      if (works(rows_[row])) continue;
      if (rows_[row].request) vacate(row);
      if (waiting_.empty() || !admits_) continue;
      const std::vector<int64_t>& text = texts_[waiting_.front()];
      const int64_t adopted = cache_.adopt_prefix(row, text);
      done_.adopted_tokens += adopted;
      rows_[row] = {.request = waiting_.front(),
                    .to_feed = {text.begin() + adopted, text.end()},
                    .in_prompt = true,
                    .admitted = ++admissions_};
      waiting_.pop_front();
    }
    return std::any_of(rows_.begin(), rows_.end(), works);
  }

  void vacate(int64_t row) {
    cache_.truncate(row, 0);
    rows_[row] = {};
  }

  /// In a static batch, rows that have finished are computed along until the last one has.
  bool takes_part(const BatchRow& row, bool prompts) const {
    if (prompts) return row.in_prompt;
    return is_static() ? row.request.has_value() : works(row);
  }
  // ANCHOR_END: admit

  /// Its next tokens: a chunk of the prompt, or the one chosen last.
  std::vector<int64_t> take(BatchRow& row) {
    const auto left = static_cast<int64_t>(row.to_feed.size());
    const auto end = row.to_feed.begin() + std::min(left, options_.chunk.value_or(left));
    std::vector<int64_t> tokens(row.to_feed.begin(), end);
    row.to_feed.erase(row.to_feed.begin(), end);
    return tokens;
  }

  // ANCHOR: preempt
  /// The pool is short. Rows that have finished and are still there leave; if there is none, the request that was
  /// admitted last gives its pages back and waits, in front of the others, for its text so far to be fed again. Nobody
  /// is admitted then until one has finished, or the same would happen in the next step. False if there is only one
  /// request.
  bool preempt() {
    bool left = false;
    for (int64_t row = 0; row < options_.rows; ++row) {
      if (!rows_[row].request || works(rows_[row])) continue;
      vacate(row);
      left = true;
    }
    if (left) return true;
    const auto last = std::max_element(rows_.begin(), rows_.end(),
                                       [](const auto& a, const auto& b) { return a.admitted < b.admitted; });
    if (std::count_if(rows_.begin(), rows_.end(), works) < 2) return false;
    waiting_.push_front(*last->request);
    done_.preemptions += 1;
    admits_ = false;
    vacate(last - rows_.begin());
    return true;
  }

  /// Its hidden states, or nothing: then there was no room, and the tokens are still to be fed.
  torch::Tensor hidden_if_room(const Feed& feed, const Step& step) {
    try {
      return last_of_each(model_->hidden(step, cache_), step);
    } catch (const OutOfPages&) {  // before anything was written
      for (size_t b = 0; b < feed.rows.size(); ++b) {
        std::vector<int64_t>& to_feed = rows_[feed.rows[b]].to_feed;
        to_feed.insert(to_feed.begin(), feed.tokens[b].begin(), feed.tokens[b].end());
      }
      if (!preempt()) throw;
      return {};
    }
  }
  // ANCHOR_END: preempt

  // ANCHOR: forward
  void forward(const Feed& feed) {
    const Step step = padded_step(feed, options_.pad_left);
    const torch::Tensor hidden = hidden_if_room(feed, step);
    if (!hidden.defined()) return;
    done_.forwards += 1;
    const int64_t real = step.counts.sum().item<int64_t>();
    done_.real_tokens += real;
    done_.padding_tokens += step.ids.numel() - real;

    std::vector<int64_t> choosing;  // rows of the step that have been fed all they had
    for (size_t b = 0; b < feed.rows.size(); ++b) {
      if (!feed.tokens[b].empty() && rows_[feed.rows[b]].to_feed.empty()) choosing.push_back(static_cast<int64_t>(b));
    }
    if (choosing.empty()) return;
    const torch::Tensor logits = model_->logits(hidden.index_select(0, to_row(choosing)[0]));  // [rows that choose, V]
    for (size_t i = 0; i < choosing.size(); ++i) {
      choose(rows_[feed.rows[choosing[i]]], logits.narrow(0, static_cast<int64_t>(i), 1));
    }
  }

  void choose(BatchRow& row, const torch::Tensor& logits) {
    GreedyDecoder& decoder = decoders_[*row.request];
    const auto id = decoder.choose(logits).item<int64_t>();
    row.in_prompt = false;
    texts_[*row.request].push_back(id);
    if (!decoder.finished())
      row.to_feed = {id};
    else
      admits_ = true;
    if (options_.on_token) options_.on_token(*row.request, id);
  }
  // ANCHOR_END: forward

  Gpt2& model_;
  KVCache& cache_;
  const std::vector<Request>& requests_;
  const BatchOptions& options_;
  std::vector<BatchRow> rows_;
  std::vector<GreedyDecoder> decoders_;      // a request each
  std::vector<std::vector<int64_t>> texts_;  // a request each: its prompt and what was chosen so far
  std::deque<size_t> waiting_;
  bool admits_ = true;
  int64_t admissions_ = 0;
  BatchGeneration done_;
};

}  // namespace

int64_t BatchGeneration::new_tokens() const {
  int64_t tokens = 0;
  for (const Generation& answer : answers) tokens += answer.new_ids.size(1);
  return tokens;
}

double BatchGeneration::all_started() const {
  double latest = answers.front().timings.start;
  for (const Generation& answer : answers) latest = std::max(latest, answer.timings.token_times.front());
  return latest;
}

double BatchGeneration::all_ended() const {
  double latest = answers.front().timings.start;
  for (const Generation& answer : answers) latest = std::max(latest, answer.timings.token_times.back());
  return latest;
}

double BatchGeneration::tokens_per_s() const {
  return static_cast<double>(new_tokens()) / (all_ended() - answers.front().timings.start);
}

double BatchGeneration::padding_share() const {
  return static_cast<double>(padding_tokens) / static_cast<double>(real_tokens + padding_tokens);
}

BatchGeneration generate_batch(Gpt2& model, KVCache& cache, const std::vector<Request>& requests,
                               const BatchOptions& options) {
  return BatchLoop(model, cache, requests, options).run();
}

}  // namespace kvbook
