/* Reads single values. Each type of key has a function that stores the value or adds one error. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/camera.h"
#include "config/errors.h"
#include "config/foreign.h"
#include "config/memory.h"
#include "config/reader.h"
#include "config/units.h"

/* -- numbers ----------------------------------------------------------------------------------------------------- */

static bool in_bounds(struct reader *reader, const struct config_key *key, const struct node *node, double value) {
  if (value >= (double)key->minimum && value <= (double)key->maximum) {
    return true;
  }
  config_errors_add(reader->errors, node->at, NULL, "'%s' must be between %" PRId64 " and %" PRId64 ", not %.80s", key->name,
                    key->minimum, key->maximum, node->text);
  return false;
}

static void read_count(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  double number;
  if (value_read_number(reader, key->name, node, true, &number) && in_bounds(reader, key, node, number)) {
    *(unsigned *)target = (unsigned)number;
  }
}

static void read_lanes(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  if (node->kind == NODE_TEXT && strcmp(node->text, "auto") == 0) {
    *(unsigned *)target = 0;
  } else if (node->kind != NODE_TEXT || value_is_text(node)) {
    value_expect(reader, key->name, node, NULL, "'auto' or a whole number");
  } else {
    read_count(reader, key, node, target);
  }
}

/* Reads "all" or "[0, 2]". */
static void read_devices(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  uint64_t devices = 0;
  if (node->kind == NODE_TEXT && strcmp(node->text, "all") == 0) {
    *(uint64_t *)target = CONFIG_ALL_DEVICES;
    return;
  }
  if (node->kind != NODE_LIST || !node->first) {
    value_expect(reader, key->name, node, "write them in brackets: [0, 1]", "'all' or a list of numbers");
    return;
  }
  for (const struct node *child = node->first; child; child = child->next) {
    double number;
    if (child->kind == NODE_INVALID || !value_read_number(reader, key->name, child, true, &number) ||
        !in_bounds(reader, key, child, number)) {
      return;
    }
    devices |= UINT64_C(1) << (unsigned)number;
  }
  *(uint64_t *)target = devices;
}

static void read_rate(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  double number;
  if (value_read_number(reader, key->name, node, false, &number) && in_bounds(reader, key, node, number)) {
    *(double *)target = number;
  }
}

/* Reads "5/min". */
static void read_frequency(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  int64_t number;
  char count[UNITS_TEXT];
  const char *slash = node->kind == NODE_TEXT ? strchr(node->text, '/') : NULL;
  size_t digits = slash ? strcspn(node->text, " /") : 0;
  bool is_minute = slash && strcmp(slash + 1 + strspn(slash + 1, " "), "min") == 0;
  if (!is_minute || digits == 0 || digits >= sizeof count || strspn(node->text + digits, " ") + node->text + digits != slash) {
    value_expect(reader, key->name, node, NULL, "so many a minute, such as 5/min");
    return;
  }
  snprintf(count, sizeof count, "%.*s", (int)digits, node->text);
  if (units_whole(count, &number) != UNITS_OK) {
    value_expect(reader, key->name, node, NULL, "so many a minute, such as 5/min");
  } else if (in_bounds(reader, key, node, (double)number)) {
    *(unsigned *)target = (unsigned)number;
  }
}

/* Reads "recorded", "asap" or "2x". */
static void read_pace(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  const char *text = node->kind == NODE_TEXT ? node->text : "";
  size_t length = strlen(text);
  char number[UNITS_TEXT];
  double times = strcmp(text, "recorded") == 0 ? 1 : strcmp(text, "asap") == 0 ? INFINITY : 0;
  if (times == 0 && length > 1 && length < sizeof number && text[length - 1] == 'x') {
    snprintf(number, sizeof number, "%.*s", (int)length - 1, text);
    times = units_number(number, &times) == UNITS_OK && times >= 0.001 && times <= 1000 ? times : 0;
  }
  if (times > 0) {
    *(double *)target = times;
  } else {
    value_expect(reader, key->name, node, NULL, "recorded, asap, or so many times as fast, such as 2x (0.001x to 1000x)");
  }
}

/* The common parts of durations and sizes. */
struct quantity {
  enum units_result (*read)(const char *text, int64_t *value, const char **unit);
  const char *(*describe)(int64_t value, char text[UNITS_TEXT]);
  const char *expected;
  const char *units;       /* the names of units */
  const char *examples[2]; /* two units that the user may mean */
};

static const struct quantity durations = {
    units_duration, units_describe_duration, "a duration such as 50ms", UNITS_OF_TIME, {"ms", "s"}};
static const struct quantity byte_sizes = {
    units_size, units_describe_size, "a size such as 64MiB", UNITS_OF_SIZE, {"MiB", "GiB"}};

static void check_quantity(struct reader *reader, const struct config_key *key, const struct node *node,
                           const struct quantity *kind, int64_t value, int64_t *target) {
  if (value >= key->minimum && value <= key->maximum) {
    *target = value;
    return;
  }
  char least[UNITS_TEXT];
  char most[UNITS_TEXT];
  config_errors_add(reader->errors, node->at, NULL, "'%s' must be between %s and %s, not %.80s", key->name,
                    kind->describe(key->minimum, least), kind->describe(key->maximum, most), node->text);
}

static void read_quantity(struct reader *reader, const struct config_key *key, const struct node *node,
                          const struct quantity *kind, int64_t *target) {
  int64_t value = 0;
  const char *unit = "";
  enum units_result result = node->kind == NODE_TEXT ? kind->read(node->text, &value, &unit) : UNITS_MALFORMED;
  char hint[READER_WHERE];
  switch (result) {
  case UNITS_OK:
    check_quantity(reader, key, node, kind, value, target);
    break;
  case UNITS_NO_UNIT:
    snprintf(hint, sizeof hint, "write for example %.20s%s or %.20s%s; units are %s", node->text, kind->examples[0], node->text,
             kind->examples[1], kind->units);
    config_errors_add(reader->errors, node->at, hint, "'%s' needs a unit", key->name);
    break;
  case UNITS_UNKNOWN_UNIT:
    snprintf(hint, sizeof hint, "units are %s", kind->units);
    config_errors_add(reader->errors, node->at, hint, "unknown unit '%.40s' in '%s'", unit, key->name);
    break;
  case UNITS_TOO_LARGE:
    config_errors_add(reader->errors, node->at, NULL, "'%s' is too large: %.80s", key->name, node->text);
    break;
  case UNITS_MALFORMED:
    value_expect(reader, key->name, node, NULL, kind->expected);
    break;
  }
}

static void read_duration(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  read_quantity(reader, key, node, &durations, target);
}

static void read_wait(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  if (node->kind == NODE_TEXT && strcmp(node->text, "auto") == 0) {
    *(int64_t *)target = 0;
  } else {
    read_duration(reader, key, node, target);
  }
}

static void read_size(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  read_quantity(reader, key, node, &byte_sizes, target);
}

/* -- words ------------------------------------------------------------------------------------------------------- */

static const char *word_remedy(const struct config_key *key, const struct node *node) {
  bool is_stream = key->section == SECTION_SOURCE || key->section == SECTION_SINK || key->section == SECTION_FORMAT;
  return is_stream && node->kind == NODE_TEXT ? foreign_word_remedy(node->text, key->section == SECTION_SINK) : NULL;
}

static void read_choice(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  value_read_word(reader, key->name, node, key->choices, word_remedy(key, node), target);
}

static void read_pixels(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  value_read_word(reader, key->name, node, reader->vocabulary->pixels, word_remedy(key, node), target);
}

static void read_dtype(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  value_read_word(reader, key->name, node, reader->vocabulary->dtypes, word_remedy(key, node), target);
}

static bool is_flag(const struct node *node, const char *word) {
  return node->kind == NODE_TEXT && !node->quoted && strcmp(node->text, word) == 0;
}

static void read_flag(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  if (is_flag(node, "true") || is_flag(node, "false")) {
    *(bool *)target = is_flag(node, "true");
  } else {
    value_expect(reader, key->name, node, NULL, "true or false");
  }
}

static void read_true(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  (void)target;
  if (!is_flag(node, "true")) {
    value_expect(reader, key->name, node, "leave the key out, and name a socket or a file", "true");
  }
}

/* -- texts ------------------------------------------------------------------------------------------------------- */

/* Replaces the text at `target`. Keeps the old one if there is no memory. */
static void store_text(struct reader *reader, const char *text, char **target) {
  char *copy = memory_copy(text, strlen(text));
  if (!copy) {
    errors_set_exhausted(reader->errors);
    return;
  }
  free(*target);
  *target = copy;
}

static void read_path(struct reader *reader, const struct config_key *key, const struct node *node, size_t limit,
                      void *target) {
  size_t length = node->kind == NODE_TEXT ? strlen(node->text) : 0;
  if (!value_is_text(node) || length == 0) {
    bool plain = node->kind == NODE_TEXT && !node->quoted && !node_is_nothing(node);
    value_expect(reader, key->name, node, plain ? "put it in quotes if it is the name of a file" : NULL, "a path");
  } else if (foreign_is_url(node->text)) {
    config_errors_add(reader->errors, node->at, foreign_url_remedy(node->text, key->section == SECTION_SINK),
                      "'%s' takes a path, not a URL: %s", key->name, node->text);
  } else if (length > limit) {
    config_errors_add(reader->errors, node->at, "choose a shorter path, or one relative to the working directory",
                      "the path of '%s' has %zu bytes; the limit is %zu", key->name, length, limit);
  } else {
    store_text(reader, node->text, target);
  }
}

static void read_socket(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  if (node->kind == NODE_TEXT && strcmp(node->text, "-") == 0) {
    value_expect(reader, key->name, node, "write file: \"-\" for standard input or output", "a path");
    return;
  }
  read_path(reader, key, node, KEYS_SOCKET_PATH, target);
}

static void read_file(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  read_path(reader, key, node, KEYS_FILE_PATH, target);
}

static void read_path_here(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  free(*(char **)target);
  *(char **)target = value_read_path(reader, key->name, node);
}

static void read_text(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  free(*(char **)target);
  *(char **)target = value_read_text(reader, key->name, node);
}

/* Recognises "127.0.0.1:9464" or "[::1]:9464". Names are not looked up. */
static bool is_address(const char *text) {
  const char *colon = strrchr(text, ':');
  size_t length = colon ? (size_t)(colon - text) : 0;
  char host[INET6_ADDRSTRLEN + 2] = "";
  int64_t port;
  if (length == 0 || length >= sizeof host || units_whole(colon + 1, &port) != UNITS_OK || port < 1 || port > 65535) {
    return false;
  }
  memcpy(host, text, length);
  struct in6_addr address;
  if (host[0] == '[' && host[length - 1] == ']') {
    host[length - 1] = '\0';
    return inet_pton(AF_INET6, host + 1, &address) == 1;
  }
  return inet_pton(AF_INET, host, &address) == 1;
}

static void read_address(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  if (value_is_text(node) && is_address(node->text)) {
    store_text(reader, node->text, target);
  } else {
    value_expect(reader, key->name, node,
                 "write 127.0.0.1:9464 for this machine only, or 0.0.0.0:9464, with a token, for all networks",
                 "a numeric address and a port");
  }
}

static void read_mode(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  size_t length = node->kind == NODE_TEXT && node->quoted ? strlen(node->text) : 0;
  if ((length == 3 || length == 4) && strspn(node->text, "01234567") == length && strtoul(node->text, NULL, 8) <= 0777) {
    *(mode_t *)target = (mode_t)strtoul(node->text, NULL, 8);
  } else {
    value_expect(reader, key->name, node, "write it in quotes: \"0660\"", "an octal file mode in quotes");
  }
}

/* -- shapes ------------------------------------------------------------------------------------------------------ */

static void read_shape(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  struct config_format *format = target;
  uint64_t product = 1;
  if (node->kind != NODE_LIST || !node->first) {
    value_expect(reader, key->name, node, "write it in brackets: [3, 480, 640]", "a list of 1 to 4 sizes");
    return;
  }
  for (const struct node *child = node->first; child; child = child->next) {
    double size;
    if (format->rank == CONFIG_MAX_RANK) {
      config_errors_add(reader->errors, child->at, NULL, "'shape' has more than %d sizes", CONFIG_MAX_RANK);
      return;
    }
    if (child->kind == NODE_INVALID || !value_read_number(reader, key->name, child, true, &size) ||
        !in_bounds(reader, key, child, size)) {
      return;
    }
    if (__builtin_mul_overflow(product, (uint64_t)size, &product) || product > (uint64_t)key->maximum) {
      config_errors_add(reader->errors, node->at, NULL, "a tensor of this shape has more than %" PRId64 " elements",
                        key->maximum);
      return;
    }
    format->shape[format->rank++] = (uint64_t)size;
  }
}

/* -- processors -------------------------------------------------------------------------------------------------- */

static void read_processors(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  struct config_processors *processors = target;
  double number;
  *processors = (struct config_processors){{0}};
  if (node->kind != NODE_LIST || !node->first) {
    value_expect(reader, key->name, node, "write it in brackets: [2, 3]", "a list of processors");
    return;
  }
  for (const struct node *child = node->first; child; child = child->next) {
    if (child->kind != NODE_INVALID && value_read_number(reader, key->name, child, true, &number) &&
        in_bounds(reader, key, child, number)) {
      processors->bits[(unsigned)number / 64] |= UINT64_C(1) << (unsigned)number % 64;
    }
  }
}

void value_read(struct reader *reader, const struct config_key *key, const struct node *node, void *target) {
  typedef void value_reader(struct reader * reader, const struct config_key *key, const struct node *node, void *target);
  static value_reader *const readers[] = {
      [KEY_CHOICE] = read_choice,     [KEY_COUNT] = read_count,         [KEY_LANES] = read_lanes,
      [KEY_DEVICE] = read_count,      [KEY_DURATION] = read_duration,   [KEY_SIZE] = read_size,
      [KEY_RATE] = read_rate,         [KEY_FLAG] = read_flag,           [KEY_TRUE] = read_true,
      [KEY_SOCKET] = read_socket,     [KEY_FILE] = read_file,           [KEY_ADDRESS] = read_address,
      [KEY_MODE] = read_mode,         [KEY_USER] = value_read_user,     [KEY_GROUP] = value_read_group,
      [KEY_USERS] = value_read_users, [KEY_GROUPS] = value_read_groups, [KEY_PIXELS] = read_pixels,
      [KEY_DTYPE] = read_dtype,       [KEY_SHAPE] = read_shape,         [KEY_FREQUENCY] = read_frequency,
      [KEY_PACE] = read_pace,         [KEY_PATH] = read_path_here,      [KEY_TEXT] = read_text,
      [KEY_DEVICES] = read_devices,   [KEY_WAIT] = read_wait,           [KEY_PROCESSORS] = read_processors,
      [KEY_URL] = camera_read_url,
  };
  if (node->kind != NODE_INVALID) {
    readers[key->type](reader, key, node, target);
  }
}
