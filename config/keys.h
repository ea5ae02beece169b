/*
 * The table of the configuration's keys. Reader, canonical text, schema and manual page are made from this table. It is
 * constant; keys.def holds its rows.
 *
 * A section is a mapping of fixed keys that fills one structure. Some sections have variants. A key with `selects` chooses the
 * variant (a source's `socket` or `file`), and other keys may apply to some variants only.
 */
#ifndef FRAMED_CONFIG_KEYS_H
#define FRAMED_CONFIG_KEYS_H

#include "config/config.h"

enum key_section {
  SECTION_ROOT,
  SECTION_LOG,
  SECTION_STATUS,
  SECTION_GPU,
  SECTION_LIMITS,
  SECTION_REALTIME,
  SECTION_MODEL,
  SECTION_BATCH,
  SECTION_PIPELINE,
  SECTION_SOURCE,
  SECTION_FORMAT,
  SECTION_ALLOW,
  SECTION_SINK,
  SECTION_ROTATE,
  SECTION_RECORD,
  SECTION_SHARE,
  SECTION_COUNT
};

enum key_type {
  KEY_SECTION,   /* `child`, with its own structure */
  KEY_PIPELINES, /* the mapping of names to pipelines */
  KEY_MODELS,    /* the mapping of names to models */
  KEY_STAGES,    /* the list of stages */
  KEY_CHOICE,    /* enum; one of `choices` */
  KEY_COUNT,     /* unsigned */
  KEY_LANES,     /* unsigned; "auto" is 0 */
  KEY_DEVICE,    /* unsigned; KEYS_NO_DEVICE until gpu.device is known */
  KEY_DEVICES,   /* uint64_t, a bit for each; 0: only `device`; "all" is CONFIG_ALL_DEVICES */
  KEY_DURATION,  /* int64_t, nanoseconds */
  KEY_WAIT,      /* like KEY_DURATION; "auto" is 0 */
  KEY_SIZE,      /* int64_t, bytes */
  KEY_RATE,      /* double */
  KEY_PACE,      /* double; "recorded" is 1, "asap" INFINITY, "2x" 2 */
  KEY_FREQUENCY, /* unsigned, a number per minute */
  KEY_FLAG,      /* bool */
  KEY_TRUE,      /* not stored; only `true` is allowed */
  KEY_SOCKET,    /* char *, a path that fits into sun_path */
  KEY_FILE,      /* char *, a path or "-" */
  KEY_PATH,      /* char *, the path of a file; relative to the folder of the configuration file */
  KEY_TEXT,      /* char * */
  KEY_URL,       /* char *, of a camera */
  KEY_ADDRESS,   /* char *, "address:port" */
  KEY_MODE,      /* mode_t */
  KEY_USER,      /* uid_t */
  KEY_GROUP,     /* gid_t */
  KEY_USERS,     /* struct config_allow, its users */
  KEY_GROUPS,    /* struct config_allow, its groups */
  KEY_PIXELS,    /* unsigned, index into the vocabulary */
  KEY_DTYPE,     /* unsigned, index into the vocabulary */
  KEY_SHAPE,     /* struct config_format, its rank and shape */
  KEY_SHAPES,    /* struct config_model, its shapes */
  KEY_PROCESSORS /* struct config_processors */
};

enum { KEYS_NO_DEVICE = 0xFFFF, KEYS_SOCKET_PATH = 107, KEYS_FILE_PATH = 4095, KEYS_MOST_IDS = 256 };

struct config_key {
  enum key_section section;
  const char *name;
  enum key_type type;
  size_t offset;              /* within the section's structure */
  const char *fallback;       /* the default as written in the file, or NULL */
  const char *absent;         /* the meaning of an absent key that has no such text */
  int64_t minimum, maximum;   /* of numbers, durations (ns) and sizes (bytes) */
  const char *const *choices; /* "" is a value without a word, which cannot be chosen */
  enum key_section child;
  unsigned applies;  /* set of variants, 1 << variant; 0: all */
  bool selects;      /* its presence chooses its variant */
  bool required;     /* except those of `optional`, in the variants to which it applies */
  unsigned optional; /* the variants in which a required key may be absent */
  bool on_one_line;  /* its section is written on one line */
  const char *help;
};

extern const struct config_key config_keys[]; /* ends with a NULL name; in the order of the canonical text */

/* All keys of a section: for (key = keys_first(section); key; key = keys_next(key)) */
const struct config_key *keys_first(enum key_section section);
const struct config_key *keys_next(const struct config_key *key);
const struct config_key *keys_find(enum key_section section, const char *name);

/* The name of a section in messages. */
const char *keys_section_name(enum key_section section);
bool keys_has_variants(enum key_section section);
/* Gets and sets the variant of a filled structure; 0 for sections without variants. */
unsigned keys_variant(enum key_section section, const void *structure);
void keys_set_variant(enum key_section section, void *structure, unsigned variant);
/* The variant that a key with `selects` chooses. */
static inline unsigned keys_variant_of(const struct config_key *selector) { return (unsigned)__builtin_ctz(selector->applies); }
static inline bool keys_applies(const struct config_key *key, unsigned variant) {
  return key->applies == 0 || (key->applies & (1U << variant)) != 0;
}
/* Whether the key must be there in a section of that variant to which it applies. */
static inline bool keys_requires(const struct config_key *key, unsigned variant) {
  return key->required && (key->optional & (1U << variant)) == 0;
}

#endif
