#include "tools/framectl/doctor/probes.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/framectl/common/text.h"

enum { LINE = 1024, MAX_PROCESSORS = 1024, MAX_NODES = 1024 };

/* -- files of one line -------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 0))) static FILE *open_file(const struct probe *probe, const char *format, va_list arguments) {
  char path[PATH_MAX];
  int length = snprintf(path, sizeof path, "%s", probe->root);
  vsnprintf(path + length, sizeof path - (size_t)length, format, arguments);
  return fopen(path, "re");
}

/* The first line of a file that begins with `prefix`, without the prefix and the newline. False if no line does. */
__attribute__((format(printf, 4, 5))) static bool read_line(const struct probe *probe, const char *prefix, char line[LINE],
                                                            const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  FILE *file = open_file(probe, format, arguments);
  va_end(arguments);
  bool found = false;
  while (file && !found && fgets(line, LINE, file)) {
    found = strncmp(line, prefix, strlen(prefix)) == 0;
  }
  if (file) {
    fclose(file);
  }
  if (found) {
    memmove(line, line + strlen(prefix), strlen(line) - strlen(prefix) + 1);
    line[strcspn(line, "\n")] = '\0';
  }
  return found;
}

/* -- the host ----------------------------------------------------------------------------------------------------------- */

void probe_governor(const struct probe *probe) {
  char line[LINE], slow[64] = "";
  unsigned known = 0, others = 0;
  for (unsigned cpu = 0; cpu < MAX_PROCESSORS; cpu++) {
    if (!read_line(probe, "", line, "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", cpu)) {
      continue;
    }
    known++;
    if (strcmp(line, "performance") != 0) {
      others++;
      snprintf(slow, sizeof slow, "%.60s", line);
    }
  }
  if (known == 0) {
    findings_add(probe->findings, "governor", VERDICT_UNKNOWN, NULL, "the kernel names none, as in a virtual machine");
  } else if (others == 0) {
    findings_add(probe->findings, "governor", VERDICT_FINE, NULL, "performance on %u processors", known);
  } else {
    findings_add(probe->findings, "governor", VERDICT_BETTER, "cpupower frequency-set -g performance: processors wake faster",
                 "%s on %u of %u processors", slow, others, known);
  }
}

void probe_memlock(const struct probe *probe, uint64_t pinned) {
  static const char remedy[] = "LimitMEMLOCK=infinity in the unit of the service, or ulimit -l unlimited";
  char line[LINE], text[TEXT_ROOM], need[TEXT_ROOM], *end;
  if (probe->pid == 0 || !read_line(probe, "Max locked memory", line, "/proc/%d/limits", probe->pid)) {
    findings_add(probe->findings, "memlock", VERDICT_UNKNOWN, "run framectl on the daemon's machine, as its user or root",
                 "the daemon's limit of locked memory cannot be read");
    return;
  }
  const char *value = line + strspn(line, " ");
  unsigned long long limit = strtoull(value, &end, 10);
  text_bytes(need, (double)pinned);
  if (strncmp(value, "unlimited", strlen("unlimited")) == 0) {
    findings_add(probe->findings, "memlock", VERDICT_FINE, NULL, "unlimited, for %s of slots", need);
  } else if (end == value) {
    findings_add(probe->findings, "memlock", VERDICT_UNKNOWN, NULL, "the daemon's limit of locked memory is not a number");
  } else {
    findings_add(probe->findings, "memlock", limit < pinned ? VERDICT_BETTER : VERDICT_FINE, remedy,
                 "%s may be locked, for %s of slots", text_bytes(text, (double)limit), need);
  }
}

/* -- a GPU --------------------------------------------------------------------------------------------------------- */

static const char *describe_throttling(unsigned long long reasons) {
  return reasons & (NVML_HARDWARE_THERMAL | NVML_SOFTWARE_THERMAL) ? "it is too hot"
         : reasons & NVML_POWER_CAP                                ? "it is at its limit of power"
         : reasons & NVML_POWER_BRAKE                              ? "the power supply asks for it"
                                                                   : "the hardware asks for it";
}

static void probe_clocks(const struct probe *probe, const struct nvml_gpu *gpu) {
  const unsigned long long bad =
      NVML_POWER_CAP | NVML_HARDWARE_SLOWDOWN | NVML_SOFTWARE_THERMAL | NVML_HARDWARE_THERMAL | NVML_POWER_BRAKE;
  if (!gpu->knows_throttling) {
    findings_add(probe->findings, "clocks", VERDICT_UNKNOWN, NULL, "%s: the driver does not say", gpu->name);
  } else if (gpu->throttling & bad) {
    findings_add(probe->findings, "clocks", VERDICT_BETTER, "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE shows the limits",
                 "%s: the clocks are held down, %s", gpu->name, describe_throttling(gpu->throttling));
  } else {
    findings_add(probe->findings, "clocks", VERDICT_FINE, NULL, "%s: not held down", gpu->name);
  }
}

static void probe_link(const struct probe *probe, const struct nvml_gpu *gpu) {
  if (!gpu->knows_link) {
    findings_add(probe->findings, "link", VERDICT_UNKNOWN, NULL, "%s: the driver does not say", gpu->name);
  } else if (gpu->generation < gpu->generation_max || gpu->width < gpu->width_max) {
    findings_add(probe->findings, "link", VERDICT_BETTER,
                 "an idle GPU lowers its link, so look again under load; then look at slot, riser and BIOS",
                 "%s: PCIe %u x%u, where %u x%u is possible", gpu->name, gpu->generation, gpu->width, gpu->generation_max,
                 gpu->width_max);
  } else {
    findings_add(probe->findings, "link", VERDICT_FINE, NULL, "%s: PCIe %u x%u, as good as it gets", gpu->name, gpu->generation,
                 gpu->width);
  }
}

static void probe_persistence(const struct probe *probe, const struct nvml_gpu *gpu) {
  if (!gpu->knows_persistence) {
    findings_add(probe->findings, "persistence", VERDICT_UNKNOWN, NULL, "%s: the driver does not say", gpu->name);
  } else {
    findings_add(probe->findings, "persistence", gpu->persistent ? VERDICT_FINE : VERDICT_BETTER,
                 "systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1: the daemon starts faster",
                 "%s: persistence mode is %s", gpu->name, gpu->persistent ? "on" : "off");
  }
}

/* Lists the processes on the GPU except the daemon: "4711 (python3), 4712". */
static unsigned list_others(const struct probe *probe, const struct nvml_gpu *gpu, char *text, size_t size) {
  unsigned others = 0;
  size_t length = 0;
  text[0] = '\0';
  for (unsigned i = 0; i < gpu->process_count; i++) {
    char name[LINE];
    if (gpu->processes[i] == (unsigned)probe->pid) {
      continue;
    }
    bool named = read_line(probe, "", name, "/proc/%u/comm", gpu->processes[i]);
    for (char *at = name; named && *at; at++) {
      *at = (char)(isprint((unsigned char)*at) ? *at : '?'); /* a process can choose any name */
    }
    int count = snprintf(text + length, size - length, named ? "%s%u (%.15s)" : "%s%u", others > 0 ? ", " : "",
                         gpu->processes[i], named ? name : "");
    length = length + (size_t)count < size ? length + (size_t)count : size - 1;
    others++;
  }
  return others;
}

static void probe_others(const struct probe *probe, const struct nvml_gpu *gpu) {
  char list[FINDING_TEXT / 2];
  unsigned others = list_others(probe, gpu, list, sizeof list);
  if (!gpu->knows_processes) {
    findings_add(probe->findings, "others", VERDICT_UNKNOWN, NULL, "%s: the driver does not say", gpu->name);
  } else if (others == gpu->process_count) {
    findings_add(probe->findings, "others", VERDICT_UNKNOWN, NULL,
                 "%s: the daemon is not among the processes that the driver names there%s%s", gpu->name, others > 0 ? ": " : "",
                 list);
  } else if (others > 0) {
    findings_add(probe->findings, "others", VERDICT_BETTER,
                 "give them another GPU, or let all of them run under MPS: see OTHERS ON THE GPU in framed(8)",
                 "%s: kernels take turns with those of process %s", gpu->name, list);
  } else {
    findings_add(probe->findings, "others", VERDICT_FINE, NULL, "%s: nobody else computes there", gpu->name);
  }
}

/* -- and its node -------------------------------------------------------------------------------------------------- */

/* Parses "0-3,8". False for any other form. */
static bool read_processors(const char *list, bool processors[MAX_PROCESSORS]) {
  memset(processors, 0, MAX_PROCESSORS * sizeof processors[0]);
  for (char *end; *list; list = end + (*end == ',')) {
    unsigned long first = strtoul(list, &end, 10), last = first;
    if (end == list) {
      return false;
    }
    if (*end == '-') {
      list = end + 1;
      last = strtoul(list, &end, 10);
    }
    if (end == list || (*end != ',' && *end != '\0') || last >= MAX_PROCESSORS) {
      return false;
    }
    for (unsigned long i = first; i <= last; i++) {
      processors[i] = true;
    }
  }
  return true;
}

/* 1: all processors of `some` are in `all`; 0: they are not; -1: unknown. */
static int is_within(const char *some, const char *all) {
  bool inner[MAX_PROCESSORS], outer[MAX_PROCESSORS];
  if (!read_processors(some, inner) || !read_processors(all, outer)) {
    return -1;
  }
  for (unsigned i = 0; i < MAX_PROCESSORS; i++) {
    if (inner[i] && !outer[i]) {
      return 0;
    }
  }
  return 1;
}

/* -1: unknown to the kernel. */
static int node_of(const struct probe *probe, const struct nvml_gpu *gpu) {
  char line[LINE], *end = line;
  bool knows = gpu->address[0] && read_line(probe, "", line, "/sys/bus/pci/devices/%s/numa_node", gpu->address);
  long node = knows ? strtol(line, &end, 10) : -1;
  return end != line && node >= 0 && node < INT_MAX ? (int)node : -1;
}

static void probe_node(const struct probe *probe, const struct nvml_gpu *gpu) {
  char near[LINE], allowed[LINE];
  int node = node_of(probe, gpu);
  if (node < 0 || !read_line(probe, "", near, "/sys/devices/system/node/node%d/cpulist", node)) {
    findings_add(probe->findings, "numa", VERDICT_UNKNOWN, NULL, "%s: the kernel does not say which processors are near",
                 gpu->name);
    return;
  }
  bool knows = probe->pid != 0 && read_line(probe, "Cpus_allowed_list:", allowed, "/proc/%d/status", probe->pid);
  int within = knows ? is_within(allowed + strspn(allowed, " \t"), near) : -1;
  if (within < 0) {
    findings_add(probe->findings, "numa", VERDICT_UNKNOWN, "run framectl on the daemon's machine",
                 "%s: near processors %.100s; where the lanes run cannot be read", gpu->name, near);
  } else {
    findings_add(probe->findings, "numa", within ? VERDICT_FINE : VERDICT_BETTER,
                 "CPUAffinity= in the unit of the service, with the processors of that node",
                 within ? "%s: the lanes run on its node %d" : "%s: the lanes may run far from its node %d", gpu->name, node);
  }
}

/* -- the memory of the slots ---------------------------------------------------------------------------------------------- */

struct spread {
  double near, far; /* bytes, on the node of the GPU and on others */
};

/*
 * The kernel keeps the node that the daemon asked for, which is that of the slots' own GPU. Without one, any GPU's node is
 * near.
 */
static bool is_near(const char *line, unsigned long node, const bool near[MAX_NODES]) {
  const char *policy = strstr(line, " prefer"), *wanted = policy ? strchr(policy, ':') : NULL;
  return wanted ? strtoul(wanted + 1, NULL, 10) == node : node < MAX_NODES && near[node];
}

/*
 * Counts a line of the daemon's numa_maps: "7f00 prefer:1 file=/memfd:framed:cam0.0:in\\040(deleted) N0=2 N1=510
 * kernelpagesize_kB=4".
 */
static void add_mapping(const char *line, const bool near[MAX_NODES], struct spread *spread) {
  const char *size = strstr(line, "kernelpagesize_kB=");
  if (!size || !strstr(line, "/memfd:framed:") || (!strstr(line, ":in\\040") && !strstr(line, ":out\\040"))) {
    return;
  }
  double page = 1024 * strtod(size + strlen("kernelpagesize_kB="), NULL);
  for (const char *at = line; (at = strstr(at, " N")); at += strlen(" N")) {
    char *end;
    unsigned long node = strtoul(at + strlen(" N"), &end, 10);
    if (*end == '=') {
      *(is_near(line, node, near) ? &spread->near : &spread->far) += page * strtod(end + 1, NULL);
    }
  }
}

__attribute__((format(printf, 4, 5))) static bool read_spread(const struct probe *probe, const bool near[MAX_NODES],
                                                              struct spread *spread, const char *format, ...) {
  char line[LINE];
  va_list arguments;
  va_start(arguments, format);
  FILE *file = open_file(probe, format, arguments);
  va_end(arguments);
  while (file && fgets(line, sizeof line, file)) {
    add_mapping(line, near, spread);
  }
  if (file) {
    fclose(file);
  }
  return spread->near + spread->far > 0;
}

void probe_slots(const struct probe *probe, const struct nvml_gpu *gpus, unsigned count) {
  static const char remedy[] =
      "free memory on the GPU's node and restart the daemon; let its unit's SystemCallFilter pass mbind";
  bool near[MAX_NODES] = {false}, knows = false;
  struct spread spread = {0, 0};
  char all[TEXT_ROOM], far[TEXT_ROOM];
  for (unsigned i = 0; i < count; i++) {
    int node = node_of(probe, &gpus[i]);
    if (node >= 0 && node < MAX_NODES) {
      near[node] = knows = true;
    }
  }
  if (!knows || probe->pid == 0 || !read_spread(probe, near, &spread, "/proc/%d/numa_maps", probe->pid)) {
    findings_add(probe->findings, "slots", VERDICT_UNKNOWN,
                 knows ? "run framectl on the daemon's machine, as its user or root" : NULL,
                 "on which node their memory lies cannot be read");
    return;
  }
  text_bytes(all, spread.near + spread.far);
  if (spread.far > 0) {
    findings_add(probe->findings, "slots", VERDICT_BETTER, remedy, "%s of their %s lie on a node far from the GPU",
                 text_bytes(far, spread.far), all);
  } else {
    findings_add(probe->findings, "slots", VERDICT_FINE, NULL, "their %s lie on the GPU's node", all);
  }
}

void probe_gpu(const struct probe *probe, const struct nvml_gpu *gpu) {
  probe_clocks(probe, gpu);
  probe_link(probe, gpu);
  probe_persistence(probe, gpu);
  probe_others(probe, gpu);
  probe_node(probe, gpu);
}
