/* The table of keys and stages as roff, for framed.yaml(5). */
#include <inttypes.h>
#include <string.h>

#include "config/keys.h"
#include "config/units.h"

/* -- roff -------------------------------------------------------------------------------------------------------- */

/* Escapes a text for roff, also at the start of a line. */
static void put(FILE *out, const char *text) {
  fputs(*text == '.' || *text == '\'' ? "\\&" : "", out);
  for (const char *at = text; *at; at++) {
    if (*at == '\\') {
      fputs("\\e", out);
    } else if (*at == '-') {
      fputs("\\-", out);
    } else {
      fputc(*at, out);
    }
  }
}

static void put_term(FILE *out, const char *name) {
  fputs(".TP\n\\fB", out);
  put(out, name);
  fputs("\\fR: ", out);
}

static void put_words(FILE *out, const char *const *words) {
  for (size_t i = 0; words[i]; i++) {
    fputs(i > 0 && words[i][0] ? " | " : "", out);
    put(out, words[i]);
  }
}

/* -- keys -------------------------------------------------------------------------------------------------------- */

static void put_range(FILE *out, const struct config_key *key) {
  fprintf(out, "%" PRId64 " to %" PRId64, key->minimum, key->maximum);
}

static void put_duration_range(FILE *out, const struct config_key *key) {
  char least[UNITS_TEXT];
  char most[UNITS_TEXT];
  fprintf(out, "duration, %s to %s", units_describe_duration(key->minimum, least), units_describe_duration(key->maximum, most));
}

/* Texts for types whose keys have no bounds or choices of their own. Sections have no text. */
static const char *const type_words[] = {
    [KEY_PACE] = "recorded | asap | a number and x",
    [KEY_SIZE] = "size such as 64MiB",
    [KEY_FLAG] = "true | false",
    [KEY_TRUE] = "true",
    [KEY_PATH] = "path; a relative one begins at the folder of the configuration file",
    [KEY_TEXT] = "text",
    [KEY_URL] = "URL",
    [KEY_FILE] = "path",
    [KEY_ADDRESS] = "address:port",
    [KEY_MODE] = "octal number in quotes",
    [KEY_USER] = "name | number",
    [KEY_GROUP] = "name | number",
    [KEY_USERS] = "list of names and numbers",
    [KEY_GROUPS] = "list of names and numbers",
    [KEY_DEVICES] = "all | list of numbers",
    [KEY_SHAPE] = "list of sizes",
    [KEY_STAGES] = "list of stages",
    [KEY_SHAPES] = "mapping of inputs to lists of sizes",
    [KEY_PROCESSORS] = "list of numbers",
};

static void put_type(FILE *out, const struct config_key *key, const struct config_vocabulary *vocabulary) {
  switch ((int)key->type) {
  case KEY_CHOICE:
    put_words(out, key->choices);
    break;
  case KEY_PIXELS:
    put_words(out, vocabulary->pixels);
    break;
  case KEY_DTYPE:
    put_words(out, vocabulary->dtypes);
    break;
  case KEY_LANES:
    fputs("auto | ", out);
    put_range(out, key);
    break;
  case KEY_COUNT:
  case KEY_DEVICE:
  case KEY_RATE:
    put_range(out, key);
    break;
  case KEY_FREQUENCY:
    put_range(out, key);
    fputs(" a minute, such as 5/min", out);
    break;
  case KEY_WAIT:
    fputs("auto | ", out);
    /* fall through */
  case KEY_DURATION:
    put_duration_range(out, key);
    break;
  case KEY_SOCKET:
    fprintf(out, "path of at most %d bytes", KEYS_SOCKET_PATH);
    break;
  default:
    fputs((size_t)key->type < sizeof type_words / sizeof *type_words && type_words[key->type] ? type_words[key->type] : "",
          out);
  }
}

static bool has_names(const struct config_key *key) { return key->type == KEY_PIPELINES || key->type == KEY_MODELS; }

/* "Only with socket or file." for keys of some variants. */
static void put_applies(FILE *out, const struct config_key *key) {
  const char *separator = " Only with ";
  for (const struct config_key *other = keys_first(key->section); other; other = keys_next(other)) {
    if (!key->selects && other->selects && (key->applies & other->applies) != 0) {
      fprintf(out, "%s%s", separator, other->name);
      separator = " or ";
    }
  }
  fputs(key->applies != 0 && !key->selects ? "." : "", out);
}

static void put_key(FILE *out, const struct config_key *key, const struct config_vocabulary *vocabulary) {
  put_term(out, key->name);
  put_type(out, key, vocabulary);
  fputc('\n', out);
  put(out, key->help);
  put_applies(out, key);
  if (key->fallback || key->absent) {
    fputs(" Default: ", out);
    put(out, key->fallback ? key->fallback : key->absent);
    fputc('.', out);
  } else if (key->required) {
    fputs(" Required.", out);
  }
  fputc('\n', out);
}

/* A section's own keys under its path, then its subsections. */
static void put_section(FILE *out, enum key_section section, const char *path, const char *help,
                        const struct config_vocabulary *vocabulary) {
  fprintf(out, ".SS %s\n", path);
  put(out, help);
  fputc('\n', out);
  for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
    if (key->type != KEY_SECTION && !has_names(key)) {
      put_key(out, key, vocabulary);
    }
  }
  for (const struct config_key *key = keys_first(section); key; key = keys_next(key)) {
    char below[128];
    const char *base = section == SECTION_ROOT ? "" : path;
    if (key->type == KEY_SECTION || has_names(key)) {
      snprintf(below, sizeof below, "%s%s%s%s", base, *base ? "." : "", key->name, has_names(key) ? ".NAME" : "");
      put_section(out, key->child, below, key->help, vocabulary);
    }
  }
}

/* -- stages ------------------------------------------------------------------------------------------------------ */

static const char *kind_of_text(const struct config_parameter *parameter) {
  switch (parameter->type) {
  case CONFIG_WORD:
    return "a text";
  case CONFIG_PATH:
    return "a path; a relative one begins at the folder of the configuration file";
  case CONFIG_SETTINGS:
    return "a mapping of names to numbers, lists of numbers or texts";
  default:
    return NULL;
  }
}

static void put_parameter(FILE *out, const struct config_parameter *parameter) {
  char least[UNITS_TEXT];
  char most[UNITS_TEXT];
  const char *text = kind_of_text(parameter);
  put_term(out, parameter->name);
  if (parameter->type == CONFIG_CHOICE) {
    put_words(out, parameter->choices);
  } else if (text) {
    put(out, text);
  } else {
    put(out, units_describe_number(parameter->minimum, least));
    fputs(" to ", out);
    put(out, units_describe_number(parameter->maximum, most));
    fputs(parameter->type == CONFIG_NUMBERS ? ", or a list of such numbers" : "", out);
  }
  fputc('\n', out);
  put(out, parameter->help);
  if (parameter->required) {
    fputs(" Required.", out);
  } else if (!text) {
    fputs(" Default: ", out);
    put(out, parameter->type == CONFIG_CHOICE ? parameter->choices[(size_t)parameter->fallback]
                                              : units_describe_number(parameter->fallback, least));
    fputc('.', out);
  }
  fputc('\n', out);
}

static void put_stage(FILE *out, const struct config_stage_type *type) {
  fprintf(out, ".SS %s\n", type->name);
  put(out, type->help);
  fputc('\n', out);
  for (unsigned i = 0; i < type->parameter_count; i++) {
    put_parameter(out, &type->parameters[i]);
  }
}

void config_print_manual(FILE *out, const struct config_vocabulary *vocabulary) {
  fputs(".SH KEYS\n", out);
  put_section(out, SECTION_ROOT, "top level", "Keys of the whole daemon.", vocabulary);
  fputs(".SH STAGES\n", out);
  for (unsigned i = 0; i < vocabulary->stage_count; i++) {
    put_stage(out, &vocabulary->stages[i]);
  }
}
