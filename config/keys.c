#include "config/keys.h"

#include <string.h>

const char *const config_backend_names[] = {"auto", "cuda", "cpu", NULL};
const char *const config_standby_names[] = {"auto", "warm", "bare", "off", NULL};
const char *const config_protocol_names[CONFIG_PROTOCOL_COUNT + 1] = {"raw", "y4m", "native", "auto", "json"};
const char *const config_source_protocol_names[] = {"raw", "y4m", "native", "auto", NULL};
const char *const config_sink_protocol_names[] = {"raw", "y4m", "native", "", "json", NULL};
const char *const config_completion_names[] = {"callback", "spin", "persistent", NULL};
const char *const config_precision_names[] = {"tf32", "float32", NULL};
const char *const config_spread_names[] = {"sessions", "frames", NULL};
const char *const config_priority_names[] = {"high", "normal", "low", NULL};
const char *const config_policy_names[] = {"other", "fifo", "rr", NULL};
const char *const config_graph_names[] = {"auto", "on", "off", NULL};
const char *const config_overload_names[] = {"block", "drop-oldest", "drop-newest", NULL};
const char *const config_sink_overload_names[] = {"drop", "block", NULL};
const char *const config_record_protocol_names[] = {"raw", "y4m", NULL};
const char *const config_record_when_names[] = {"always", "boxes", "event", NULL};
const char *const config_full_names[] = {"auto", "remove-oldest", "stop", NULL};
const char *const config_transport_names[] = {"tcp", "udp", NULL};
const char *const config_log_level_names[] = {"error", "warning", "info", "debug", NULL};

_Static_assert(sizeof(uint32_t) == sizeof(unsigned), "KEY_COUNT stores widths and heights too");

/* clang-format off */
const struct config_key config_keys[] = {
#define KEY(section_, name_, type_, offset_, ...) \
    {.section = SECTION_##section_, .name = #name_, .type = KEY_##type_, .offset = (offset_), __VA_ARGS__},
#include "config/keys.def"
#undef KEY
    {.name = NULL}};
/* clang-format on */

static const struct config_key *from(const struct config_key *key, enum key_section section) {
  while (key->name && key->section != section) {
    key++;
  }
  return key->name ? key : NULL;
}

const struct config_key *keys_first(enum key_section section) { return from(config_keys, section); }

const struct config_key *keys_next(const struct config_key *key) { return from(key + 1, key->section); }

const struct config_key *keys_find(enum key_section section, const char *name) {
  const struct config_key *key = keys_first(section);
  while (key && strcmp(key->name, name) != 0) {
    key = keys_next(key);
  }
  return key;
}

const char *keys_section_name(enum key_section section) {
  static const char *const names[SECTION_COUNT] = {
      [SECTION_ROOT] = "the file",   [SECTION_LOG] = "'log'",           [SECTION_STATUS] = "'status'",
      [SECTION_GPU] = "'gpu'",       [SECTION_PIPELINE] = "a pipeline", [SECTION_SOURCE] = "'source'",
      [SECTION_FORMAT] = "'format'", [SECTION_ALLOW] = "'allow'",       [SECTION_SINK] = "'sink'",
      [SECTION_LIMITS] = "'limits'", [SECTION_MODEL] = "a model",       [SECTION_REALTIME] = "'realtime'",
      [SECTION_ROTATE] = "'rotate'", [SECTION_RECORD] = "'record'",     [SECTION_BATCH] = "'batch'",
      [SECTION_SHARE] = "'share'",
  };
  return names[section];
}

bool keys_has_variants(enum key_section section) {
  return section == SECTION_SOURCE || section == SECTION_SINK || section == SECTION_FORMAT;
}

unsigned keys_variant(enum key_section section, const void *structure) {
  switch (section) {
  case SECTION_SOURCE:
    return ((const struct config_source *)structure)->endpoint;
  case SECTION_SINK:
    return ((const struct config_sink *)structure)->endpoint;
  case SECTION_FORMAT:
    return ((const struct config_format *)structure)->is_tensor ? 1 : 0;
  default:
    return 0;
  }
}

void keys_set_variant(enum key_section section, void *structure, unsigned variant) {
  switch (section) {
  case SECTION_SOURCE:
    ((struct config_source *)structure)->endpoint = (enum config_endpoint)variant;
    break;
  case SECTION_SINK:
    ((struct config_sink *)structure)->endpoint = (enum config_endpoint)variant;
    break;
  case SECTION_FORMAT:
    ((struct config_format *)structure)->is_tensor = variant == 1;
    break;
  default:
    break;
  }
}
