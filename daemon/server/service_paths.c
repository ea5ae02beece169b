#include "daemon/server/service_paths.h"

#include <string.h>

#define UNIT "framed.service"

/* Whether the path is the folder, or inside it. */
static bool is_below(const char *path, const char *folder) {
  size_t length = strlen(folder);
  while (length > 0 && folder[length - 1] == '/') {
    length--;
  }
  return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static bool is_below_any(const char *path, const char *const *folders) {
  while (*folders && !is_below(path, *folders)) {
    folders++;
  }
  return *folders != NULL;
}

static bool may_write(const struct unit_rules *rules, const char *path) {
  bool may = !rules->strict || is_below_any(path, (const char *[]){"/dev", "/proc", "/sys", NULL});
  may = may || (rules->private_tmp && is_below_any(path, (const char *[]){"/tmp", "/var/tmp", NULL}));
  for (unsigned i = 0; i < rules->count && !may; i++) {
    may = is_below(path, rules->writable[i]);
  }
  return may;
}

const char *service_paths_judge(const struct unit_rules *rules, const char *path, bool writes) {
  if (rules->private_tmp && is_below_any(path, (const char *[]){"/tmp", "/var/tmp", NULL})) {
    return "in the service that is a folder of its own, which nobody else sees (PrivateTmp=): write /run/framed/NAME";
  }
  if (rules->hides_homes && is_below_any(path, (const char *[]){"/home", "/root", "/run/user", NULL})) {
    return "the service does not see homes (ProtectHome=): use another folder, or BindPaths= in `systemctl edit framed`";
  }
  if (writes && !may_write(rules, path)) {
    return path[0] == '/'
               ? "the service may not write there (ProtectSystem=strict): write /run/framed/NAME, or name its folder in "
                 "ReadWritePaths= in `systemctl edit framed`"
               : "the service starts in /, where it may not write (ProtectSystem=strict): write /run/framed/NAME";
  }
  return NULL;
}

static void note_path(FILE *out, const struct unit_rules *rules, const struct config_mark *at, const char *path, bool writes) {
  const char *why = strcmp(path, "-") != 0 ? service_paths_judge(rules, path, writes) : NULL;
  if (why && at->file && at->line > 0) {
    fprintf(out, "%s:%u:%u: ", at->file, at->line, at->column);
  }
  if (why) {
    fprintf(out, "note: " UNIT " cannot use '%s'\n  %s\n", path, why);
  }
}

void service_paths_print(FILE *out, const struct config *config) {
  struct unit_rules rules;
  if (!unit_rules_read(UNIT, &rules)) {
    return;
  }
  note_path(out, &rules, &config->status.socket_at, config->status.socket, true);
  for (unsigned i = 0; i < config->pipeline_count; i++) {
    const struct config_source *source = &config->pipelines[i].source;
    const struct config_sink *sink = &config->pipelines[i].sink;
    if (source->endpoint != CONFIG_CAMERA) {
      note_path(out, &rules, &source->path_at, source->path, source->endpoint == CONFIG_SOCKET);
    }
    if (sink->endpoint != CONFIG_REPLY) {
      note_path(out, &rules, &sink->path_at, sink->path, true);
    }
  }
  unit_rules_clear(&rules);
}
