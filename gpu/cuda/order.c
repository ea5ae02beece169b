/*
 * Large copies of one direction, one after the other.
 *
 * A GPU with several copy engines runs copies of one direction from several streams at the same time, and they share the
 * link. That wins nothing, and with large frames it can cost a few per cent: slots that copy in together compute together and
 * copy out together, while the other direction of the link lies idle. So a large copy waits for the one before it.
 *
 * A copy in is the first thing on its stream, so it waits for nothing else, and the order is that of all programs of the
 * device: copies take tickets, and each waits for the event of the ticket before. A copy out waits for its stages too, so
 * that its order is that of the program alone: no pipeline waits for the kernels of another. Two lanes that take tickets at
 * the same moment may find an event not yet recorded anew; then two copies share the link, and nothing else happens. What
 * is waited for was enqueued before, so no two streams ever wait for each other.
 *
 * A copy that is in an order is never within a graph, where it could not wait for another slot's.
 */
#include "gpu/cuda/cuda.h"

/* Smaller copies do not drift into step, and an event and a wait for each would cost them more than they win. */
enum { LARGE_COPY = 24 << 20 };

static bool is_ordered(enum gpu_order_choice choice, size_t bytes) {
  return choice == GPU_ORDER_ON || (choice == GPU_ORDER_AUTO && bytes >= LARGE_COPY);
}

bool cuda_order_in(const struct gpu_program *program) {
  return is_ordered(program->options.order, program->chain->input_bytes);
}

bool cuda_order_out(const struct gpu_program *program) {
  return is_ordered(program->options.order, program->chain->output_bytes);
}

bool cuda_order_open(struct cuda_device *device, struct gpu_error *error) {
  for (unsigned i = 0; i < CUDA_TICKETS; i++) {
    if (!CUDA_CALL(&device->base, error, cudaEventCreateWithFlags, &device->tickets[i], cudaEventDisableTiming)) {
      return false;
    }
  }
  return true;
}

void cuda_order_close(struct cuda_device *device) {
  struct gpu_error error;
  for (unsigned i = 0; i < CUDA_TICKETS; i++) {
    if (device->tickets[i]) {
      (void)CUDA_CALL(&device->base, &error, cudaEventDestroy, device->tickets[i]);
    }
  }
}

bool cuda_order_begin_in(const struct cuda_slot *slot, unsigned *ticket, struct gpu_error *error) {
  struct cuda_device *device = (struct cuda_device *)slot->program->base.device;
  *ticket = atomic_fetch_add(&device->next_ticket, 1);
  return *ticket == 0 ||
         CUDA_CALL(&device->base, error, cudaStreamWaitEvent, slot->stream, device->tickets[(*ticket - 1) % CUDA_TICKETS], 0);
}

bool cuda_order_end_in(const struct cuda_slot *slot, unsigned ticket, struct gpu_error *error) {
  struct cuda_device *device = (struct cuda_device *)slot->program->base.device;
  return CUDA_CALL(&device->base, error, cudaEventRecord, device->tickets[ticket % CUDA_TICKETS], slot->stream);
}

bool cuda_order_begin_out(const struct cuda_slot *slot, struct gpu_error *error) {
  const struct cuda_slot *before = slot->before;
  return !before || before == slot || !before->ordered_out ||
         CUDA_CALL(slot->program->base.device, error, cudaStreamWaitEvent, slot->stream, before->out_done, 0);
}

bool cuda_order_end_out(struct cuda_slot *slot, struct gpu_error *error) {
  slot->ordered_out = true;
  return CUDA_CALL(slot->program->base.device, error, cudaEventRecord, slot->out_done, slot->stream);
}
