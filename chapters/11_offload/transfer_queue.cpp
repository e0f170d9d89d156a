#include "chapters/11_offload/transfer_queue.h"

#include <c10/util/Exception.h>

#include <csignal>
#include <system_error>
#include <utility>

namespace kvbook {

TransferQueue::TransferQueue() {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    TORCH_CHECK(false, "cannot start a thread for transfers: ", error.what(),
                ": end other programs, or raise the limit");
  }
}

TransferQueue::~TransferQueue() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TransferQueue::add(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

// ANCHOR: wait
void TransferQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !running_; });
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
}

void TransferQueue::drop_and_forget() {
  std::unique_lock lock(mutex_);
  jobs_.clear();
  changed_.wait(lock, [&] { return !running_; });
  fault_ = nullptr;
}

void TransferQueue::run() {
  sigset_t file_too_large;
  sigemptyset(&file_too_large);
  sigaddset(&file_too_large, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &file_too_large, nullptr);

  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    running_ = true;
    lock.unlock();
    std::exception_ptr fault;
    try {
      job();
    } catch (...) {  // not lost: whoever waits gets it
      fault = std::current_exception();
    }
    lock.lock();
    running_ = false;
    if (fault) {
      jobs_.clear();
      if (!fault_) fault_ = fault;
    }
    changed_.notify_all();
  }
}
// ANCHOR_END: wait

}  // namespace kvbook
