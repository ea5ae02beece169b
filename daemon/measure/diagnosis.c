#include "daemon/measure/diagnosis.h"

#include <stdio.h>

#include "daemon/measure/advice.h"
#include "gpu/gpu.h"

/* Minimum gain for which a change is advised. */
#define WORTH 1.05
/* From this share of busy time on, the lane is the bottleneck. */
#define BUSY_LANE 0.9
/* Maximum time until a polling lane notices a result. A callback takes some tens of us more. */
#define SPIN_WAKE_US 10.0
/* Below this share of dropped frames the source is not too fast; something stalled for a moment. */
#define TOO_FAST 0.01
/* Below this share of missed results the readers only stalled for a moment. */
#define TOO_SLOW 0.01
/* A kernel next to copies takes up to this many times as long as alone. If it takes longer, other kernels run at the same
 * time. */
#define DISTURBED 1.25
/* An engine that is busy for less than this share of the time is not the bottleneck. */
#define RESTING 0.3
/* Stages that take this many times as long as alone lack processors. */
#define SLOWED 1.5
/* The model explains a measurement if they differ by less than this. */
#define EXPLAINED 1.02
/* From this share of the stages' time on, the model is the bottleneck. */
#define MOST_OF_IT 0.5

const char *const bound_names[BOUND_COUNT] = {"h2d",    "kernel",     "d2h",   "host",   "source",
                                              "reader", "processors", "model", "nothing"};

const char *const improvement_names[IMPROVE_COUNT] = {"none",      "slots",      "spin",  "bytes_in", "stages",
                                                      "bytes_out", "lane_bytes", "graph", "reader",   "processors",
                                                      "instances", "half",       "batch", "model"};

static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }

/* -- finding the bottleneck ----------------------------------------------------------------------------------------------- */

static unsigned sessions_of(const struct diagnosis_figures *figures) { return figures->sessions > 0 ? figures->sessions : 1; }

/* Slots in this step on average. */
static double found_in(const struct diagnosis_figures *figures, enum step step) {
  return figures->frames * figures->step[step] / (figures->seconds * 1e6);
}

/* Slots on the device on average. Frames without device times count from the end of their queue step to the start of emit. */
static double found_on_device(const struct diagnosis_figures *figures) {
  const double *step = figures->step;
  if (!figures->is_untimed) {
    return found_in(figures, STEP_GPU_WAIT) + found_in(figures, STEP_H2D) + found_in(figures, STEP_KERNEL) +
           found_in(figures, STEP_D2H);
  }
  double there = step[STEP_TOTAL] - step[STEP_RECEIVE] - step[STEP_QUEUE] - step[STEP_EMIT];
  return figures->frames * larger(0, there) / (figures->seconds * 1e6);
}

static bool lane_is_full(const struct diagnosis_figures *figures) { return figures->lane_share >= BUSY_LANE; }

static enum bound diagnosis_engine_of(const struct overlap_work *work) { return (enum bound)overlap_longest(work); }

/* Busy share of an engine: for all pipelines or, if unknown, for this one. */
static double engine_busy(const struct diagnosis_figures *figures, const struct overlap_work *work, enum bound engine) {
  unsigned at_once = engine == BOUND_KERNEL && figures->kernels > 1 ? figures->kernels : 1;
  double own = figures->frames * work->service[engine] / (figures->seconds * 1e6 * at_once);
  return larger(own, figures->engine_share[engine]);
}

/* True if stages on processors take far longer than in the warm-up, which had the processors for itself. */
static bool are_slowed(const struct diagnosis_figures *figures, const struct overlap_work *work) {
  double alone = figures->costs.service[OVERLAP_KERNEL];
  return figures->on_processors && alone > 0 && work->service[OVERLAP_KERNEL] > SLOWED * alone;
}

static enum bound bound_of_standstill(const struct diagnosis_figures *figures, const struct overlap_work *work) {
  switch (figures->standing) {
  case STANDING_SOURCE:
    return BOUND_SOURCE;
  case STANDING_READER:
    return BOUND_READER;
  case STANDING_DEVICE:
    return overlap_sum(work) > 0 ? diagnosis_engine_of(work) : BOUND_KERNEL;
  default:
    return BOUND_NOTHING;
  }
}

static enum bound bound_of_flow(const struct diagnosis_figures *figures, const struct overlap_work *work) {
  double device = found_on_device(figures);
  double host = found_in(figures, STEP_WAKE);
  double reader = figures->lossless ? found_in(figures, STEP_EMIT) : 0;
  double slots = figures->slots * sessions_of(figures);
  /* Slots that are free or being filled. Frames that wait for dispatch are left out, because they wait for a later step. */
  bool too_fast = figures->dropped > TOO_FAST * figures->frames;
  double source = too_fast ? 0 : slots - device - host - reader - found_in(figures, STEP_QUEUE);
  double most = larger(larger(device, host), larger(reader, source));
  if (most <= 0) { /* the first frame is on its way */
    return bound_of_standstill(figures, work);
  }
  if (most > device && lane_is_full(figures)) {
    return BOUND_HOST;
  }
  if (most <= device) { /* a persistent kernel makes the copies as well */
    return figures->is_untimed ? BOUND_KERNEL : diagnosis_engine_of(work);
  }
  return most <= reader ? BOUND_READER : most <= source ? BOUND_SOURCE : BOUND_HOST;
}

static enum bound find_bound(const struct diagnosis_figures *figures, const struct overlap_work *work) {
  bool one_holds_all = figures->sessions <= 1 && figures->standing == STANDING_READER;
  if (figures->frames <= 0 || figures->seconds <= 0 || one_holds_all) {
    return bound_of_standstill(figures, work);
  }
  enum bound bound = bound_of_flow(figures, work);
  bool is_engine = bound <= BOUND_D2H;
  bool rests = is_engine && !figures->is_untimed && engine_busy(figures, work, bound) < RESTING;
  bool waits = rests || (bound == BOUND_HOST && !lane_is_full(figures)) || (bound == BOUND_KERNEL && are_slowed(figures, work));
  if (figures->is_short && waits) {
    return BOUND_PROCESSORS;
  }
  return !rests ? bound : figures->dropped > TOO_FAST * figures->frames ? BOUND_HOST : BOUND_NOTHING;
}

/* -- the model ----------------------------------------------------------------------------------------------------- */

/* Time per frame in a long run: that of the slowest engine, or of a slot's round divided by the slots. */
static double pace(const struct overlap_work *work) { return larger(overlap_period(work), overlap_round(work) / work->slots); }

static double measured_pace(const struct diagnosis_figures *figures) { return figures->seconds * 1e6 / figures->frames; }

static bool flows(const struct diagnosis_figures *figures) { return figures->frames > 0 && figures->seconds > 0; }

struct diagnosis_costs diagnosis_costs_of(const struct gpu_costs *ns) {
  return (struct diagnosis_costs){
      .alone = (double)ns->alone / 1e3,
      .lane = (double)ns->lane / 1e3,
      .service = {(double)ns->h2d / 1e3, (double)ns->kernel / 1e3, (double)ns->d2h / 1e3},
      .together = {(double)ns->shared_h2d / 1e3, (double)ns->kernels / 1e3, (double)ns->shared_d2h / 1e3},
  };
}

static struct overlap_work measured_work(const struct diagnosis_figures *figures) {
  unsigned slots = (figures->depth > 0 ? figures->depth : figures->slots) * sessions_of(figures);
  return (struct overlap_work){
      .service = {figures->step[STEP_H2D], figures->step[STEP_KERNEL], figures->step[STEP_D2H]},
      .kernels = figures->kernels,
      .slots = slots < OVERLAP_MAX_SLOTS ? slots : OVERLAP_MAX_SLOTS, /* of all sessions, on the device at once */
  };
}

/* Time from kernel to kernel in a continuous run: as in the warm-up, scaled if other kernels slow them down now. Never more
 * than was measured. */
static double kernel_succession(const struct diagnosis_costs *costs, double service) {
  double alone = costs->service[OVERLAP_KERNEL], together = costs->together[OVERLAP_KERNEL];
  double times = service > alone * DISTURBED ? service / alone : 1;
  return together > 0 && together < alone ? smaller(service, together * times) : 0;
}

/* Copies that were measured may or may not have run next to copies in the other direction. */
static double copy_succession(const struct diagnosis_costs *costs, enum overlap_engine engine, double service) {
  return costs->together[engine] > service ? costs->together[engine] : 0;
}

/* Work that runs side by side was timed from the end of the previous frame, which means nothing unless the frame was alone. */
static void free_engines(const struct diagnosis_figures *figures, struct overlap_work *work) {
  for (int engine = 0; engine < OVERLAP_ENGINES; engine++) {
    double alone = figures->costs.service[engine];
    work->service[engine] = alone > 0 ? smaller(work->service[engine], alone) : work->service[engine];
    work->succession[engine] = work->service[engine] / OVERLAP_MAX_SLOTS;
  }
}

struct overlap_work diagnosis_work(const struct diagnosis_figures *figures) {
  const struct diagnosis_costs *costs = &figures->costs;
  struct overlap_work work = measured_work(figures);
  if (figures->copies_by_kernel) {
    free_engines(figures, &work);
  } else {
    work.succession[OVERLAP_H2D] = copy_succession(costs, OVERLAP_H2D, work.service[OVERLAP_H2D]);
    work.succession[OVERLAP_KERNEL] = kernel_succession(costs, work.service[OVERLAP_KERNEL]);
    work.succession[OVERLAP_D2H] = copy_succession(costs, OVERLAP_D2H, work.service[OVERLAP_D2H]);
  }
  double share = figures->host_share > 0 ? figures->host_share : figures->lane_share;
  work.host = flows(figures) && share > 0 ? share * measured_pace(figures) : 0;
  work.turnaround = figures->notice;
  if (costs->alone > 0) {
    /* Time per frame with one slot: device and polling as in the warm-up, the lane's other work, and the time until the lane
     * wakes. */
    work.alone = costs->alone + larger(0, work.host - costs->lane) + (figures->spins ? 0 : figures->notice);
    /* The rest after engines and host. It may be negative, because the host still works on a frame after its copy has begun. */
    double sum = overlap_services(costs->service);
    sum = sum > 0 ? sum : overlap_services(work.service);
    work.turnaround = larger(work.alone - sum - work.host, -work.host);
  }
  return work;
}

/* How much longer a copy takes than alone. */
static double slowed(const struct diagnosis_figures *figures, const struct overlap_work *work, enum overlap_engine engine) {
  double alone = figures->costs.service[engine];
  return alone > 0 && !figures->copies_by_kernel ? larger(0, work->service[engine] - alone) : 0;
}

/* Time of a single frame, derived from a measured round. Copies are faster alone, and in the round the frame may have waited
 * for others. With callbacks and two slots it hardly waited, and the round knows better than the warm-up how long a lane takes
 * to wake up. */
static double alone_of_round(const struct diagnosis_figures *figures, const struct overlap_work *work, double round) {
  if (work->slots == 1) {
    return round;
  }
  double rest = round - slowed(figures, work, OVERLAP_H2D) - slowed(figures, work, OVERLAP_D2H);
  return (work->slots > 2 || figures->spins) && work->alone > 0 ? smaller(work->alone, rest) : rest;
}

/* If neither an engine nor the host explains the pace, slots are short. Then a round takes as long as measured, and the
 * turnaround is its rest. */
static void apply_measured_pace(const struct diagnosis_figures *figures, enum bound bound, struct overlap_work *work) {
  bool saturated = flows(figures) && bound <= BOUND_HOST && !(bound == BOUND_HOST && lane_is_full(figures));
  if (!saturated || measured_pace(figures) <= overlap_period(work) * EXPLAINED) {
    return;
  }
  double round = work->slots * measured_pace(figures);
  work->alone = alone_of_round(figures, work, round);
  work->turnaround = larger(round - overlap_services(work->service) - work->host, -work->host);
}

/* -- improvements -------------------------------------------------------------------------------------------------- */

/* Gain in frames with another number of slots, or another turnaround. */
static double gain_of(const struct overlap_work *now, unsigned slots, double turnaround) {
  struct overlap_work other = *now;
  other.slots = slots;
  other.turnaround = turnaround;
  other.alone = larger(0, now->alone - (now->turnaround - turnaround));
  return pace(&other) > 0 ? pace(now) / pace(&other) : 1;
}

/* Advises a change of configuration if one has enough gain. */
static bool advise_configuration(const struct diagnosis_figures *figures, struct diagnosis *diagnosis) {
  const struct overlap_work *work = &diagnosis->work;
  unsigned sessions = sessions_of(figures);
  bool has_room = advice_more_slots(figures) <= DIAGNOSIS_MOST_SLOTS && work->slots + sessions <= OVERLAP_MAX_SLOTS;
  double slot = has_room ? gain_of(work, work->slots + sessions, work->turnaround) : 1;
  double saved = figures->spins ? 0 : larger(0, smaller(work->turnaround, figures->notice) - SPIN_WAKE_US);
  double spin = gain_of(work, work->slots, work->turnaround - saved);
  if (slot < WORTH && spin < WORTH) {
    return false;
  }
  if (slot >= spin) {
    advise(diagnosis, IMPROVE_SLOTS, slot, "another slot (slots: %u): %.2f times as many frames", advice_more_slots(figures),
           slot);
  } else {
    advise(diagnosis, IMPROVE_SPIN, spin, "completion: spin, which keeps a core busy: %.2f times as many frames", spin);
  }
  return true;
}

/* An engine is the bottleneck: only less work helps. */
static void advise_engine(struct diagnosis *diagnosis) {
  static const char *const less[] = {
      [BOUND_H2D] = "fewer bytes in (a smaller format); with half of them",
      [BOUND_KERNEL] = "cheaper stages; in half the time",
      [BOUND_D2H] = "fewer bytes out (a smaller result); with half of them",
  };
  static const enum improvement improvements[] = {
      [BOUND_H2D] = IMPROVE_BYTES_IN, [BOUND_KERNEL] = IMPROVE_STAGES, [BOUND_D2H] = IMPROVE_BYTES_OUT};
  struct overlap_work half = diagnosis->work;
  half.service[diagnosis->bound_by] /= 2;
  half.succession[diagnosis->bound_by] /= 2;
  half.alone = larger(0, half.alone - half.service[diagnosis->bound_by]);
  double gain = pace(&half) > 0 ? pace(&diagnosis->work) / pace(&half) : 1;
  advise(diagnosis, improvements[diagnosis->bound_by], gain, "%s %.2f times as many frames", less[diagnosis->bound_by], gain);
}

/* How many times as many frames this work allows. */
static double room_for(const struct overlap_work *work, const struct diagnosis_figures *figures) {
  double least = pace(work);
  return figures->frames > 0 && least > 0 ? larger(1, measured_pace(figures) / least) : 1;
}

/* If the pipeline does not wait for its readers, no bottleneck shows that they are slow. */
static bool advise_missed(const struct diagnosis_figures *figures, struct diagnosis *diagnosis) {
  if (figures->offered <= 0 || figures->missed <= TOO_SLOW * figures->offered) {
    return false;
  }
  advise(diagnosis, IMPROVE_READER, 1,
         "a reader that takes results faster, or sink: {overload: block}, which waits for it: slow readers missed %.0f of %.0f",
         smaller(figures->missed, figures->offered), figures->offered);
  return true;
}

/* Frames a second. */
static double pace_of(const struct diagnosis_figures *figures) {
  double fps = figures->in_fps > 0 ? figures->in_fps : figures->frames / figures->seconds;
  return fps * figures->devices;
}

static void advise_outside(const struct diagnosis_figures *figures, struct diagnosis *diagnosis) {
  double room = room_for(&diagnosis->work, figures);
  if (diagnosis->bound_by == BOUND_READER && figures->replies && figures->standing == STANDING_READER) {
    advise(diagnosis, IMPROVE_READER, 1, "a client that reads its results while it sends: its frames wait for that");
  } else if (diagnosis->bound_by == BOUND_READER && room < WORTH) {
    advise(diagnosis, IMPROVE_READER, 1, "a reader that takes results: frames wait for it");
  } else if (diagnosis->bound_by == BOUND_READER) {
    advise(diagnosis, IMPROVE_READER, room, "a reader that takes results faster: up to %.3g times as many frames", room);
  } else if (figures->frames > 0) {
    advise(diagnosis, IMPROVE_NONE, 1, "nothing to change here: frames come at %.3g/s, and %.*f times as many could pass",
           pace_of(figures),
           room < 10    ? 2
           : room < 100 ? 1
                        : 0,
           room);
  } else {
    advise(diagnosis, IMPROVE_NONE, 1, "nothing to change here: the source brings no frames");
  }
}

static void advise_lane(const struct diagnosis_figures *figures, struct diagnosis *diagnosis) {
  if (figures->graphless) {
    advise(diagnosis, IMPROVE_GRAPH, 1,
           "graph: auto, which tries at the start whether graphs take less of its lane, busy %.0f %%",
           100 * figures->lane_share);
    return;
  }
  struct overlap_work device = diagnosis->work;
  device.host = 0;
  double room = room_for(&device, figures);
  advise(diagnosis, IMPROVE_LANE_BYTES, room,
         "fewer bytes for its lane to copy, which is busy %.0f %% of the time: up to %.3g times as many frames",
         100 * figures->lane_share, room);
}

static void find_advice(const struct diagnosis_figures *figures, struct diagnosis *diagnosis) {
  switch (diagnosis->bound_by) {
  case BOUND_NOTHING:
    advise(diagnosis, IMPROVE_NONE, 1,
           figures->standing == STANDING_RESUME ? "resume it: it takes no frames" : "nothing was measured yet");
    if (flows(figures)) {
      advise(diagnosis, IMPROVE_NONE, 1, "nothing bounds it: frames come at %.3g/s", pace_of(figures));
    }
    break;
  case BOUND_PROCESSORS:
    advise(
        diagnosis, IMPROVE_PROCESSORS, 1,
        "more processors, or less beside framed on these %u: for %.0f %% of the time something waits for one (%u ready to run, "
        "%.0f %% stolen by a hypervisor)",
        figures->processors, 100 * figures->waited, figures->ready, 100 * figures->stolen);
    break;
  case BOUND_SOURCE:
  case BOUND_READER:
    if (!advise_missed(figures, diagnosis)) {
      advise_outside(figures, diagnosis);
    }
    break;
  case BOUND_HOST:
    if (lane_is_full(figures)) {
      advise_lane(figures, diagnosis);
    } else if (!advise_configuration(figures, diagnosis)) {
      advise(diagnosis, IMPROVE_NONE, 1, "nothing in the configuration: the host needs this long to notice results");
    }
    break;
  case BOUND_MODEL:
    if (advice_model_is_busy(figures) || !advise_configuration(figures, diagnosis)) {
      advise_model(figures, diagnosis);
    }
    break;
  default:
    if (advise_configuration(figures, diagnosis)) {
      break;
    }
    if (figures->is_untimed) {
      advise(diagnosis, IMPROVE_NONE, 1, "nothing that is known: what a kernel that stays does with a frame has no times");
    } else {
      advise_engine(diagnosis);
    }
  }
}

/* -- all of it ----------------------------------------------------------------------------------------------------- */

static void find_overlap(const struct diagnosis_figures *figures, const struct overlap_work *work,
                         struct diagnosis *diagnosis) {
  double sum = figures->frames * overlap_sum(work), wall = smaller(figures->busy_s, figures->seconds) * 1e6;
  if (sum > 0 && wall > 0) {
    diagnosis->ratio = overlap_ratio(wall, sum);
    diagnosis->speedup = sum / wall;
    diagnosis->ideal_speedup = overlap_ideal_speedup(work);
  }
}

static unsigned share(unsigned count, unsigned devices) { return (count + devices - 1) / devices; }

/* Each of several devices has its share of slots, frames and host time. */
static struct diagnosis_figures of_one_device(const struct diagnosis_figures *figures) {
  const unsigned devices = figures->devices > 0 ? figures->devices : 1;
  struct diagnosis_figures one = *figures;
  one.devices = devices;
  one.slots = share(figures->slots, devices);
  one.depth = share(figures->depth, devices);
  one.frames /= devices;
  one.dropped /= devices;
  one.in_fps /= devices;
  one.model.users = share(figures->model.users, devices);
  one.model.runs /= devices;
  return one;
}

static void diagnose_one(const struct diagnosis_figures *figures, struct diagnosis *diagnosis) {
  const struct overlap_work measured = measured_work(figures);
  *diagnosis = (struct diagnosis){.work = diagnosis_work(figures), .devices = figures->devices};
  diagnosis->bound_by = find_bound(figures, &diagnosis->work);
  apply_measured_pace(figures, diagnosis->bound_by, &diagnosis->work);
  if (diagnosis->bound_by == BOUND_KERNEL && figures->model.instances > 0 && advice_model_share(figures) > MOST_OF_IT) {
    diagnosis->bound_by = BOUND_MODEL;
  }
  /* One slot is never faster than two. If the warm-up says so, conditions have changed and its value is dropped. */
  struct overlap_work two = diagnosis->work;
  two.slots = 2;
  diagnosis->work.alone = diagnosis->work.alone >= pace(&two) ? diagnosis->work.alone : 0;
  find_overlap(figures, &measured, diagnosis);
  find_advice(figures, diagnosis);
}

void diagnose(const struct diagnosis_figures *figures, struct diagnosis *diagnosis) {
  const struct diagnosis_figures one = of_one_device(figures);
  diagnose_one(&one, diagnosis);
}
