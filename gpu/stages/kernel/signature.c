/*
 * What arguments a kernel takes, from its name in the code, which by the C++ ABI spells out their types: `_Z6invert9framed_in10
 * framed_outfi` takes a frame, a result, a float and an int. So they are known without a device, and of every kind of code.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "gpu/stages/kernel/private.h"

#define ENDS "9framed_in10framed_out"

/* -- finding ------------------------------------------------------------------------------------------------------ */

static bool is_symbol(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

static const char *find(const struct kernel_code *code, const char *text) {
  return memmem(code->bytes, code->size, text, strlen(text));
}

static bool find_symbol(const struct kernel_code *code, const char *file, const char *name, struct kernel_signature *signature,
                        char problem[STAGE_TEXT]) {
  char begins[KERNEL_SYMBOL / 2], wanted[KERNEL_SYMBOL], plain[2][KERNEL_SYMBOL];
  snprintf(begins, sizeof begins, "_Z%zu%s", strlen(name), name);
  snprintf(wanted, sizeof wanted, "%s" ENDS, begins);
  const char *at = find(code, wanted);
  size_t length = 0;
  while (at && length + 1 < sizeof signature->symbol && is_symbol(at[length])) {
    signature->symbol[length] = at[length];
    length++;
  }
  signature->symbol[length] = '\0';
  if (at) {
    return true;
  }
  snprintf(plain[0], sizeof plain[0], ".text.%s", name);
  snprintf(plain[1], sizeof plain[1], ".entry %s(", name);
  if (find(code, plain[0]) || find(code, plain[1])) {
    snprintf(problem, STAGE_TEXT, "the kernel '%.80s' in %s is extern \"C\", which hides the types of its arguments", name,
             file);
  } else if (find(code, begins)) {
    snprintf(problem, STAGE_TEXT, "the arguments of the kernel '%.80s' in %s do not begin with framed_in and framed_out", name,
             file);
  } else {
    snprintf(problem, STAGE_TEXT, "there is no kernel '%.80s' in %s", name, file);
  }
  return false;
}

/* -- types -------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *code, *name;
  char kind;
  unsigned count;
} types[] = {
    {"f", "float", 'f', 1},         {"d", "double", 'd', 1},         {"b", "bool", 'b', 1},
    {"i", "int", 'i', 1},           {"j", "unsigned", 'j', 1},       {"l", "long", 'x', 1},
    {"m", "unsigned long", 'y', 1}, {"x", "long long", 'x', 1},      {"y", "unsigned long long", 'y', 1},
    {"s", "short", 's', 1},         {"t", "unsigned short", 't', 1}, {"h", "unsigned char", 'h', 1},
    {"6float2", "float2", 'f', 2},  {"6float3", "float3", 'f', 3},   {"6float4", "float4", 'f', 4},
    {"4int2", "int2", 'i', 2},      {"4int3", "int3", 'i', 3},       {"4int4", "int4", 'i', 4},
};
enum { TYPES = sizeof types / sizeof *types };

/* The types that the name spells out, of which one that came before is S1_, S2_ ...: framed_in and framed_out are the first. */
struct reading {
  const char *at;
  size_t seen[8];
  unsigned seen_count;
};

static bool read_again(struct reading *reading, size_t *type) {
  unsigned index = (unsigned)(reading->at[1] - '1');
  if (reading->at[0] != 'S' || reading->at[1] < '1' || index >= reading->seen_count || reading->at[2] != '_') {
    return false;
  }
  *type = reading->seen[index];
  reading->at += strlen("S1_");
  return true;
}

/* False: a type that no parameter has. */
static bool read_type(struct reading *reading, size_t *type) {
  if (read_again(reading, type)) {
    return true;
  }
  for (*type = 0; *type < TYPES; ++*type) {
    size_t length = strlen(types[*type].code);
    if (strncmp(reading->at, types[*type].code, length) == 0) {
      reading->at += length;
      if (length > 1 && reading->seen_count < sizeof reading->seen / sizeof *reading->seen) {
        reading->seen[reading->seen_count++] = *type;
      }
      return true;
    }
  }
  return false;
}

/* -- values ------------------------------------------------------------------------------------------------------- */

#define STORE(type, number)                                                                                                    \
  do {                                                                                                                         \
    type value = (type)(number);                                                                                               \
    memcpy(to, &value, sizeof value);                                                                                          \
    return (double)value == (number) ? sizeof value : 0;                                                                       \
  } while (0)
#define STORE_WHOLE(type, least, most, number)                                                                                 \
  do {                                                                                                                         \
    if (!((number) >= (least) && (number) <= (most))) {                                                                        \
      return 0;                                                                                                                \
    }                                                                                                                          \
    STORE(type, number);                                                                                                       \
  } while (0)

/* How many bytes the number takes as that type; 0 where it is not one of the type's. */
static size_t store(char kind, double number, unsigned char *to) {
  float narrow = (float)number;
  switch (kind) {
  case 'f':
    memcpy(to, &narrow, sizeof narrow);
    return sizeof narrow;
  case 'd':
    memcpy(to, &number, sizeof number);
    return sizeof number;
  case 'b':
    STORE_WHOLE(uint8_t, 0, 1, number);
  case 'h':
    STORE_WHOLE(uint8_t, 0, UINT8_MAX, number);
  case 's':
    STORE_WHOLE(int16_t, INT16_MIN, INT16_MAX, number);
  case 't':
    STORE_WHOLE(uint16_t, 0, UINT16_MAX, number);
  case 'i':
    STORE_WHOLE(int32_t, INT32_MIN, INT32_MAX, number);
  case 'j':
    STORE_WHOLE(uint32_t, 0, UINT32_MAX, number);
  case 'x':
    STORE_WHOLE(int64_t, -0x1p53, 0x1p53, number);
  default:
    STORE_WHOLE(uint64_t, 0, 0x1p53, number);
  }
}

static bool take_argument(const struct stage_setting *setting, size_t type, struct kernel_argument *argument,
                          char problem[STAGE_TEXT]) {
  size_t used = 0;
  *argument = (struct kernel_argument){.kind = types[type].kind, .count = types[type].count};
  bool fits = !setting->text && setting->count == argument->count;
  for (unsigned i = 0; fits && i < argument->count; i++) {
    size_t size = store(argument->kind, setting->numbers[i], argument->bytes + used);
    fits = size > 0;
    used += size;
  }
  if (!fits) {
    snprintf(problem, STAGE_TEXT, "the parameter '%.80s' is of type %s in the kernel, and what is given is none", setting->name,
             types[type].name);
  }
  return fits;
}

static bool is_end(const struct reading *reading) { return !is_symbol(*reading->at) || *reading->at == '$'; }

bool kernel_match(const struct kernel_code *code, const char *file, const char *name, const struct stage_value *settings,
                  struct kernel_signature *signature, char problem[STAGE_TEXT]) {
  if (!find_symbol(code, file, name, signature, problem)) {
    return false;
  }
  struct reading reading = {.at = strstr(signature->symbol, ENDS) + strlen(ENDS)};
  for (signature->count = 0; !is_end(&reading); signature->count++) {
    size_t type;
    if (!read_type(&reading, &type)) {
      snprintf(problem, STAGE_TEXT, "argument %u of the kernel '%.80s' is of a type that no parameter has",
               signature->count + 3, name);
      return false;
    }
    if (signature->count == KERNEL_ARGUMENTS) {
      snprintf(problem, STAGE_TEXT, "the kernel '%.80s' takes more than %d parameters", name, KERNEL_ARGUMENTS);
      return false;
    }
    if (signature->count == settings->setting_count) {
      snprintf(problem, STAGE_TEXT,
               "the kernel '%.80s' takes more than the %u given under `parameters`: the next is of type %s", name,
               settings->setting_count, types[type].name);
      return false;
    }
    if (!take_argument(&settings->settings[signature->count], type, &signature->arguments[signature->count], problem)) {
      return false;
    }
  }
  if (signature->count < settings->setting_count) {
    snprintf(problem, STAGE_TEXT, "the kernel '%.80s' takes %u parameters, and %u are given", name, signature->count,
             settings->setting_count);
    return false;
  }
  return true;
}
