// A thread that moves bytes while another one computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace kvbook {

// ANCHOR: contract
/// Runs jobs in a thread of its own, one after the other, in the order in which they were added. What a job throws is
/// kept for whoever waits; the jobs behind it are dropped, since they may build on it. One thread adds and waits.
/// SIGXFSZ is blocked in the queue's thread: a file that may not grow is an error there, and no end of the process.
class TransferQueue {
 public:
  TransferQueue();   ///< @throws c10::Error if no thread can be started
  ~TransferQueue();  ///< waits for what was added
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  void add(std::function<void()> job);
  void wait();  ///< until all have run. @throws what the first one threw that failed; then the queue is as new
  void drop_and_forget();  ///< waits for the job that runs, drops the others, and forgets what was thrown
                           // ANCHOR_END: contract

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // the first one is running, if `running_`
  bool running_ = false, ends_ = false;
  std::exception_ptr fault_;
  std::thread thread_;
};

}  // namespace kvbook
