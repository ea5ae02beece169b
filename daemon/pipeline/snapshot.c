/*
 * Values of a pipeline: sums over all sessions, and recent activity. Each session's ledger is read under its lane's sequence
 * lock and balances, so the sum balances too.
 */
#include <inttypes.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "daemon/device/device.h"
#include "daemon/frame/flow.h"
#include "daemon/pipeline/private.h"
#include "daemon/sink/results.h"

static bool is_not_read(const struct pipeline *pipeline) {
  bool not_read = false;
  for (unsigned i = 0; i < inputs_seats(pipeline->inputs); i++) {
    struct session_view view;
    session_read(inputs_session(pipeline->inputs, i), &view);
    not_read = not_read || view.not_read;
  }
  return not_read;
}

void pipeline_ledger(const struct pipeline *pipeline, struct ledger *ledger) {
  *ledger = (struct ledger){0};
  for (unsigned i = 0; pipeline->inputs && i < inputs_seats(pipeline->inputs); i++) {
    struct session_view view;
    session_read(inputs_session(pipeline->inputs, i), &view);
    ledger_add(ledger, &view.ledger);
  }
}

/* A pool thread's work on a file may be interrupted, so a handover need not wait. */
static bool awaits(const struct outputs *outputs, int64_t before) {
  int64_t written = sink_asked(outputs_sink(outputs)), worked = before != INT64_MAX ? outputs_asked(outputs) : 0;
  return (written != 0 && written < before) || (worked != 0 && worked < before);
}

const char *pipeline_awaited_file(const struct pipeline *pipeline, int64_t before) {
  const struct config_pipeline *config = pipeline->config;
  bool reads = config->source.endpoint == CONFIG_FILE && pipeline->inputs && inputs_seats(pipeline->inputs) > 0;
  bool writes = config->sink.endpoint == CONFIG_FILE && pipeline->outputs;
  int64_t read = reads ? session_asked(inputs_session(pipeline->inputs, 0)) : 0;
  if (read != 0 && read < before) {
    return config->source.path;
  }
  if (writes && awaits(pipeline->outputs, before)) {
    return config->sink.path;
  }
  /* a recording is not handed over */
  bool records = before != INT64_MAX && pipeline->record && awaits(pipeline->record, before);
  return records ? config->record.file : NULL;
}

static uint64_t dropped(const struct ledger *ledger) {
  uint64_t sum = 0;
  for (enum fate fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    sum += ledger->fates[fate];
  }
  return sum;
}

/* " (late 1, unread 2)", or empty. */
static void append_fates(const struct ledger *ledger, char *text, size_t size) {
  const char *before = " (";
  size_t length = strlen(text);
  for (enum fate fate = FATE_EMITTED + 1; fate < FATE_COUNT; fate++) {
    if (ledger->fates[fate] > 0 && length < size) {
      length += (size_t)snprintf(text + length, size - length, "%s%s %" PRIu64, before, fate_names[fate], ledger->fates[fate]);
      before = ", ";
    }
  }
  if (before[0] == ',' && length < size) {
    snprintf(text + length, size - length, ")");
  }
}

const char *pipeline_account(const struct pipeline *pipeline, char text[PIPELINE_ACCOUNT]) {
  struct ledger ledger;
  pipeline_ledger(pipeline, &ledger);
  snprintf(text, PIPELINE_ACCOUNT, "in %" PRIu64 " = emitted %" PRIu64 " + in flight %" PRIu64 " + dropped %" PRIu64, ledger.in,
           ledger.fates[FATE_EMITTED], ledger.in_flight, dropped(&ledger));
  append_fates(&ledger, text, PIPELINE_ACCOUNT);
  return text;
}

const struct engine_placement *pipeline_placement_of(const struct pipeline *pipeline, unsigned producer) {
  return &pipeline->placements[producer];
}

void pipeline_work(const struct pipeline *pipeline, unsigned device, struct health_work *work) {
  *work = (struct health_work){0};
  for (unsigned i = 0; pipeline->inputs && i < inputs_seats(pipeline->inputs); i++) {
    struct session_view view;
    const struct engine_placement *placement = &pipeline->placements[i];
    if (device != NO_DEVICE && (engine_placement_bits(placement) >> device & 1) == 0) {
      continue;
    }
    const struct session *session = inputs_session(pipeline->inputs, i);
    session_read(session, &view);
    const int64_t alone = session_stages(session)->costs.alone;
    work->alone = alone > work->alone ? alone : work->alone;
    if (view.submitted != view.completed && (work->frames == 0 || view.last_completion < work->since)) {
      work->since = view.last_completion;
    }
    const unsigned among = device != NO_DEVICE ? placement->count : 1; /* its devices take turns */
    work->frames += (view.submitted - view.completed + among - 1) / among;
  }
}

static void read_lane(const struct lane *lane, struct reading *reading) {
  int64_t *time = &reading->lane_time[lane_index(lane) % METER_LANES];
  if (*time == 0) {
    *time = lane_processor_time(lane);
    reading->lane_work[lane_index(lane) % METER_LANES] = lane_work(lane);
  }
}

/* Reads ledgers, start time and device time from one copy of each session. */
static void read_sessions(const struct pipeline *pipeline, struct reading *reading) {
  for (unsigned i = 0; i < inputs_seats(pipeline->inputs); i++) {
    struct session_view view;
    session_read(inputs_session(pipeline->inputs, i), &view);
    ledger_add(&reading->ledger, &view.ledger);
    if (view.began != 0 && (reading->began == 0 || view.began < reading->began)) {
      reading->began = view.began;
    }
    reading->worked += view.worked;
    reading->lane_own[lane_index(pipeline->lanes[i]) % METER_LANES] += view.worked;
    reading->busy += view.busy + (view.busy_since != 0 && view.busy_since < reading->at ? reading->at - view.busy_since : 0);
  }
}

/* Averages over the devices if there are several. */
void pipeline_read_served(const struct pipeline *pipeline, struct reading *reading) {
  unsigned seats = inputs_seats(pipeline->inputs);
  memset(reading->served, 0, sizeof reading->served);
  for (unsigned i = 0; i < seats; i++) {
    const struct engine_placement *placement = &pipeline->placements[i];
    for (unsigned j = 0; j < placement->count; j++) {
      const double *served = engine_served(pipeline->setup.engine, placement->on[j].number);
      for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
        reading->served[engine] += served[engine] / (seats * placement->count);
      }
    }
  }
}

/* The model of the last stage that runs one; NULL: none. */
static const struct model_record *model_of_chain(const struct pipeline *pipeline) {
  const struct chain_record *record = device_chain_record(pipeline->chain);
  return record->has_model ? &record->model : NULL;
}

static void read_model(const struct pipeline *pipeline, struct reading *reading) {
  const struct model_record *model = model_of_chain(pipeline);
  uint64_t served[WORKER_INSTANCES], batches[WORKER_BATCHES];
  if (!model) {
    return;
  }
  device_chain_counts(pipeline->chain, served, batches);
  for (unsigned i = 0; i < WORKER_INSTANCES; i++) {
    reading->run_frames += served[i];
  }
  for (unsigned i = 0; i < WORKER_BATCHES; i++) {
    reading->runs += batches[i];
  }
  reading->runs = model->summary.batch.most > 0 ? reading->runs : reading->run_frames;
}

void pipeline_read(const struct pipeline *pipeline, struct reading *reading) {
  memset(reading, 0, sizeof *reading);
  reading->at = clock_now();
  read_sessions(pipeline, reading);
  pipeline_read_served(pipeline, reading);
  read_model(pipeline, reading);
  reading->missed = pipeline->outputs ? outputs_missed(pipeline->outputs) : 0;
  for (unsigned i = 0; i < inputs_seats(pipeline->inputs); i++) {
    read_lane(pipeline->lanes[i], reading);
    if (pipeline->sink_lanes[i]) {
      read_lane(pipeline->sink_lanes[i], reading);
    }
    for (enum step step = 0; step < STEP_COUNT; step++) {
      histogram_read(session_histogram(inputs_session(pipeline->inputs, i), step), &reading->steps[step]);
    }
  }
}

/* -- clients ------------------------------------------------------------------------------------------------------------- */

/* The texts for struct pipeline_client. The pipeline waits for a reader with unread data in its socket; any other reader waits
 * for results.
 */
static const char *const waits[] = {
    [WAITING_FOR_NOTHING] = "nothing", [WAITING_FOR_PRODUCER] = "nothing", [WAITING_FOR_FRAMES] = "nothing",
    [WAITING_FOR_GPU] = "gpu",         [WAITING_FOR_READER] = "reader",    [WAITING_FOR_RESUME] = "resume",
};

static struct pipeline_client list_producer(const struct producer *producer, uint64_t devices) {
  struct session_view view;
  session_read(producer->session, &view);
  uint64_t in = view.ledger.in, before = producer->frames_before;
  struct pipeline_client client = {.pid = producer->client.pid,
                                   .uid = producer->client.uid,
                                   .since = producer->client.since,
                                   .frames = in > before ? in - before : 0,
                                   .waiting = waits[view.waiting],
                                   .devices = devices};
  memcpy(client.process, producer->client.process, sizeof client.process);
  return client;
}

static struct pipeline_client list_reader(const struct reader_entry *entry) {
  int unread = 0;
  bool lags = ioctl(entry->reader->fd, SIOCOUTQ, &unread) == 0 && unread > 0;
  struct pipeline_client client = {
      .reads = true, .pid = entry->pid, .uid = entry->uid, .since = entry->since, .waiting = lags ? "nothing" : "results"};
  memcpy(client.process, entry->process, sizeof client.process);
  reader_read(entry->reader, &client.frames, &client.missed);
  return client;
}

/* Lists producers, then readers. Files are left out, because they are no clients. */
static unsigned list_clients(const struct pipeline *pipeline, struct pipeline_client list[PIPELINE_LISTED]) {
  const struct inputs *inputs = pipeline->inputs;
  const struct outputs *outputs = pipeline->outputs;
  bool connects = pipeline->config->source.endpoint != CONFIG_FILE, reads = outputs && outputs_is_socket(outputs);
  unsigned count = 0;
  for (unsigned i = 0; connects && i < inputs->count && count < PIPELINE_LISTED; i++) {
    if (inputs->seats[i].client.fd >= 0) {
      list[count++] = list_producer(&inputs->seats[i], engine_placement_bits(&pipeline->placements[i]));
    }
  }
  for (const struct reader_entry *entry = reads ? outputs->entries : NULL; entry && count < PIPELINE_LISTED;
       entry = entry->next) {
    list[count++] = list_reader(entry);
  }
  return count;
}

/* -- the snapshot -------------------------------------------------------------------------------------------------------- */

static void count_refusals(const struct refusals *refusals, struct pipeline_snapshot *snapshot) {
  snapshot->refused += refusals->count;
  if (refusals->last.at > snapshot->refusal.at) {
    snapshot->refusal = refusals->last;
  }
}

static void fill_clients(struct pipeline *pipeline, struct pipeline_snapshot *snapshot) {
  snapshot->clients = pipeline->config->source.clients;
  snapshot->sessions = inputs_producers(pipeline->inputs);
  for (unsigned i = 0; i < snapshot->clients; i++) {
    snapshot->devices |= engine_placement_bits(&pipeline->placements[i]);
  }
  snapshot->listed = list_clients(pipeline, snapshot->list);
  snapshot->trouble = &pipeline->trouble;
  snapshot->source_trouble = inputs_trouble(pipeline->inputs);
  snapshot->last_in = pipeline_last_in(pipeline);
  snapshot->last_out = pipeline_last_out(pipeline);
  snapshot->silence = pipeline_silence(pipeline);
  snapshot->links = pipeline->links;
  count_refusals(inputs_refusals(pipeline->inputs), snapshot);
  snapshot->waiting = inputs_seats(pipeline->inputs) > 0 ? pipeline_waiting(pipeline) : WAITING_FOR_NOTHING;
  snapshot->not_read = is_not_read(pipeline);
  if (pipeline->outputs) {
    snapshot->readers = outputs_readers(pipeline->outputs);
    snapshot->missed = outputs_missed(pipeline->outputs);
    snapshot->sink_trouble = outputs_trouble(pipeline->outputs);
    count_refusals(outputs_refusals(pipeline->outputs), snapshot);
  } else {
    snapshot->readers = snapshot->sessions; /* producers read their own replies */
  }
}

/* Frames that came faster than they could be processed. */
static uint64_t overtaken(const struct ledger *ledger) {
  return ledger->fates[FATE_OLDEST] + ledger->fates[FATE_NEWEST] + ledger->fates[FATE_LATE];
}

/* Results offered to the readers that are connected now. */
static uint64_t results_offered(const struct ledger *ledger, uint64_t readers) {
  return (ledger->fates[FATE_EMITTED] + ledger->fates[FATE_UNREAD]) * readers;
}

static enum standing standing_of(enum session_waiting waiting) {
  static const enum standing standings[] = {
      [WAITING_FOR_NOTHING] = STANDING_NOT, [WAITING_FOR_PRODUCER] = STANDING_SOURCE, [WAITING_FOR_FRAMES] = STANDING_SOURCE,
      [WAITING_FOR_GPU] = STANDING_DEVICE,  [WAITING_FOR_READER] = STANDING_READER,   [WAITING_FOR_RESUME] = STANDING_RESUME,
  };
  return standings[waiting];
}

/* Busy share of a device's engine for all pipelines. */
static double engine_share(const struct reading *now, const struct reading *before, enum overlap_engine engine,
                           unsigned at_once) {
  double us = (double)(now->at - before->at) / 1e3 * (at_once > 0 ? at_once : 1);
  return us > 0 && before->at != 0 ? (now->served[engine] - before->served[engine]) / us : 0;
}

/* A pipeline that replaced another one in a reload counts from 0. */
static double counted(uint64_t now, uint64_t before) { return (double)(now >= before ? now - before : now); }

static struct diagnosis_model model_of(const struct pipeline *pipeline, const struct reading *now,
                                       const struct reading *before) {
  const double runs = counted(now->runs, before->runs);
  const struct model_record *model = model_of_chain(pipeline);
  if (!model) {
    return (struct diagnosis_model){0};
  }
  return (struct diagnosis_model){.instances = model->summary.instances,
                                  .users = device_chain_users(pipeline->chain),
                                  .most = model->summary.batch.most,
                                  .runs = runs,
                                  .batched = runs > 0 ? counted(now->run_frames, before->run_frames) / runs : 1,
                                  .takes_rows = model->summary.takes_rows,
                                  .is_single = model->summary.is_single,
                                  .is_batch = model->input.shape[0] > 1};
}

static void fill_model(const struct pipeline *pipeline, struct pipeline_snapshot *snapshot) {
  const struct model_record *model = model_of_chain(pipeline);
  if (model) {
    snapshot->model = model->summary.file;
    snapshot->instances = model->summary.instances;
    snapshot->most_batched = model->summary.batch.most;
    device_chain_counts(pipeline->chain, snapshot->served, snapshot->batches);
  }
}

static void fill_diagnosis(const struct pipeline *pipeline, struct pipeline_snapshot *snapshot, const struct reading *now,
                           const struct reading *before) {
  const struct config_pipeline *config = pipeline->config;
  const struct device *device = pipeline->placements[0].device;
  const struct session *session = inputs_session(pipeline->inputs, 0);
  const struct processors *processors = engine_processors(pipeline->setup.engine);
  bool spins = config->completion != CONFIG_COMPLETION_CALLBACK;
  struct diagnosis_figures figures = {
      .seconds = snapshot->seconds,
      .busy_s = (double)(now->busy - before->busy) / (double)NS_PER_S,
      .frames = (double)snapshot->latency[STEP_QUEUE].count,
      .dropped = (double)(overtaken(&now->ledger) - overtaken(&before->ledger)),
      .missed = (double)(now->missed - before->missed),
      .offered =
          (double)(results_offered(&now->ledger, snapshot->readers) - results_offered(&before->ledger, snapshot->readers)),
      .notice = snapshot->latency[STEP_WAKE].p50,
      .slots = config->slots,
      .depth = flow_depth(config->overload, config->slots, config->deadline_ns > 0),
      .sessions = snapshot->sessions,
      .kernels = device_kernels_at_once(device),
      .devices = pipeline->placements[0].count,
      .host_share = spins ? 0 : meter_host_share(now, before),
      .lane_share = spins ? meter_worked_share(now, before) : meter_lane_share(now, before),
      .engine_share = {engine_share(now, before, OVERLAP_H2D, 1),
                       engine_share(now, before, OVERLAP_KERNEL, device_kernels_at_once(device)),
                       engine_share(now, before, OVERLAP_D2H, 1)},
      .on_processors = strcmp(device_backend_name(device), "cpu") == 0,
      .is_short = processors_are_short(processors),
      .processors = processors->count,
      .ready = processors->ready,
      .waited = processors->waited,
      .stolen = processors->stolen,
      .in_fps = snapshot->in_fps,
      .standing = standing_of(snapshot->waiting),
      .spins = spins,
      .graphless = config->graph == CONFIG_GRAPH_OFF && strcmp(device_backend_name(device), "cuda") == 0,
      .lossless = config->sink.endpoint != CONFIG_SOCKET || config->sink.overload == CONFIG_SINK_BLOCK,
      .replies = config->sink.endpoint == CONFIG_REPLY,
      .is_untimed = session_stages(session)->timed_one_in == 0,
      .copies_by_kernel = session_stages(session)->copy == GPU_COPY_KERNEL,
      .costs = diagnosis_costs_of(&session_stages(session)->costs),
      .model = model_of(pipeline, now, before),
  };
  for (enum step step = 0; step < STEP_COUNT; step++) {
    figures.step[step] = snapshot->latency[step].mean;
  }
  diagnose(&figures, &snapshot->diagnosis);
  snapshot->graph = session_stages(session)->graph == GPU_GRAPH_ON;
  snapshot->copies = strcmp(device_backend_name(device), "cpu") != 0; /* the CPU backend works on frames in place */
  snapshot->copies_by_kernel = session_stages(session)->copy == GPU_COPY_KERNEL;
  snapshot->timed_one_in = (unsigned)session_stages(session)->timed_one_in;
  snapshot->busy_s = (double)now->busy / (double)NS_PER_S;
}

static void fill_figures(const struct pipeline *pipeline, struct pipeline_snapshot *snapshot, struct reading *now) {
  const struct reading *before = meter_oldest(pipeline->meter);
  struct meter_rates rates = meter_rates(now, before);
  snapshot->ledger = now->ledger;
  past_minute(&pipeline->past, &now->ledger, now->at, snapshot->lately);
  snapshot->seconds = rates.seconds;
  snapshot->in_fps = rates.in_fps;
  snapshot->out_fps = rates.out_fps;
  snapshot->in_bytes_per_s = rates.in_bytes_per_s;
  snapshot->out_bytes_per_s = rates.out_bytes_per_s;
  for (enum step step = 0; step < STEP_COUNT; step++) {
    snapshot->latency[step] = histogram_summarize(&now->steps[step], &before->steps[step]);
    snapshot->cumulative[step] = now->steps[step];
  }
  snapshot->slots = pipeline->config->slots;
  snapshot->diagnosis.gain = 1;
  if (inputs_seats(pipeline->inputs) > 0) {
    fill_diagnosis(pipeline, snapshot, now, before);
  }
}

const char *pipeline_waits_for(const struct pipeline *pipeline) {
  if (pipeline->state == PIPELINE_WAITING) {
    return pipeline->trouble.text;
  }
  if (pipeline_shown_state(pipeline) != PIPELINE_WAITING) {
    return "";
  }
  const struct outputs *late = pipeline->outputs && outputs_is_late(pipeline->outputs) ? pipeline->outputs : pipeline->record;
  return late->troubles[OUTPUT_LATE].text;
}

static void fill_camera(const struct pipeline *pipeline, struct pipeline_snapshot *snapshot) {
  const struct camera *camera = pipeline->inputs ? inputs_camera(pipeline->inputs) : NULL;
  if (camera) {
    snapshot->has_camera = true;
    snapshot->camera = *camera_view(camera);
    snapshot->camera_pid = camera_process(camera).pid;
  }
}

void pipeline_snapshot(struct pipeline *pipeline, struct pipeline_snapshot *snapshot) {
  const struct frame_format *output = &device_chain_record(pipeline->chain)->output;
  memset(snapshot, 0, sizeof *snapshot);
  snapshot->name = pipeline->config->name;
  snapshot->state = pipeline_shown_state(pipeline);
  snapshot->waits_for = pipeline_waits_for(pipeline);
  format_describe(&pipeline->input, snapshot->input);
  format_describe(output, snapshot->output);
  format_bytes(&pipeline->input, &snapshot->input_bytes);
  format_bytes(output, &snapshot->output_bytes);
  fill_clients(pipeline, snapshot);
  fill_model(pipeline, snapshot);
  fill_camera(pipeline, snapshot);
  pipeline_read(pipeline, &pipeline->now);
  fill_figures(pipeline, snapshot, &pipeline->now);
}

const struct past *pipeline_past(const struct pipeline *pipeline) { return &pipeline->past; }
