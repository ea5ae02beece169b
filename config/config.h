/*
 * The validated configuration: plain data that the rest of the program only reads.
 *
 * Only config_load() makes one. It returns either a valid configuration, or every error of every file at once, each with its
 * place. This directory is independent of GPU and daemon. The caller passes the names of stages, parameters, pixel formats and
 * element types as a vocabulary. A hook checks what only the caller can judge, such as matching formats and memory. keys.def
 * holds keys, types, defaults, bounds and help.
 */
#ifndef FRAMED_CONFIG_CONFIG_H
#define FRAMED_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* A place in a file, for messages. Line and column count from 1; 0 means no place (a default). */
struct config_mark {
  const char *file; /* owned by the configuration or its errors */
  unsigned line, column;
};

/* -- the vocabulary --------------------------------------------------------------------------------------- */

enum { CONFIG_MAX_PARAMETERS = 12, CONFIG_MAX_NUMBERS = 4, CONFIG_MAX_RANK = 4, CONFIG_MAX_SLOTS = 16, CONFIG_MAX_STAGES = 16 };
enum { CONFIG_MAX_PROCESSORS = 1024 };
#define CONFIG_ALL_DEVICES UINT64_MAX
enum { CONFIG_MAX_DEVICES = 64 };
enum { CONFIG_MAX_SIDES = 8, CONFIG_MAX_SHAPES = 16 }; /* of models */

enum config_parameter_type {
  CONFIG_NUMBER,
  CONFIG_INTEGER,
  CONFIG_CHOICE,
  CONFIG_NUMBERS,
  CONFIG_WORD,    /* any text */
  CONFIG_PATH,    /* of a file; relative to the folder of the configuration file */
  CONFIG_SETTINGS /* a mapping of names to texts, numbers or lists of numbers */
};

struct config_parameter {
  const char *name;
  enum config_parameter_type type;
  bool required;
  double minimum, maximum, fallback;
  const char *const *choices; /* NULL terminated */
  const char *help;
};

struct config_stage_type {
  const char *name, *help;
  const struct config_parameter *parameters;
  unsigned parameter_count;
  bool runs_model; /* its parameter `name` or `file` selects the model */
};

struct config_vocabulary {
  const char *const *pixels; /* NULL terminated; a format stores the index */
  const char *const *dtypes; /* likewise */
  const struct config_stage_type *stages;
  unsigned stage_count;
};

/* -- the configuration ------------------------------------------------------------------------------------- */

enum config_log_level { CONFIG_LOG_ERROR, CONFIG_LOG_WARNING, CONFIG_LOG_INFO, CONFIG_LOG_DEBUG };
enum config_backend { CONFIG_BACKEND_AUTO, CONFIG_BACKEND_CUDA, CONFIG_BACKEND_CPU };
enum config_standby { CONFIG_STANDBY_AUTO, CONFIG_STANDBY_WARM, CONFIG_STANDBY_BARE, CONFIG_STANDBY_OFF };
enum config_protocol {
  CONFIG_PROTOCOL_RAW,
  CONFIG_PROTOCOL_Y4M,
  CONFIG_PROTOCOL_NATIVE,
  CONFIG_PROTOCOL_AUTO, /* sources: native or y4m, by the first bytes */
  CONFIG_PROTOCOL_JSON, /* sinks: a line for each result */
  CONFIG_PROTOCOL_COUNT
};
enum config_completion { CONFIG_COMPLETION_CALLBACK, CONFIG_COMPLETION_SPIN, CONFIG_COMPLETION_PERSISTENT };
enum config_graph { CONFIG_GRAPH_AUTO, CONFIG_GRAPH_ON, CONFIG_GRAPH_OFF };
enum config_overload { CONFIG_OVERLOAD_BLOCK, CONFIG_OVERLOAD_DROP_OLDEST, CONFIG_OVERLOAD_DROP_NEWEST };
enum config_sink_overload { CONFIG_SINK_DROP, CONFIG_SINK_BLOCK };
enum config_precision { CONFIG_TF32, CONFIG_FLOAT32 };
enum config_record_when { CONFIG_RECORD_ALWAYS, CONFIG_RECORD_BOXES, CONFIG_RECORD_EVENT };
enum config_spread { CONFIG_SPREAD_SESSIONS, CONFIG_SPREAD_FRAMES };
enum config_priority { CONFIG_PRIORITY_HIGH, CONFIG_PRIORITY_NORMAL, CONFIG_PRIORITY_LOW };
enum config_policy { CONFIG_POLICY_OTHER, CONFIG_POLICY_FIFO, CONFIG_POLICY_RR };
enum config_endpoint { CONFIG_SOCKET, CONFIG_FILE, CONFIG_REPLY, CONFIG_CAMERA };
enum config_transport { CONFIG_TRANSPORT_TCP, CONFIG_TRANSPORT_UDP };

struct config_format {
  struct config_mark at;
  bool is_tensor;
  unsigned pixels; /* an image: index into the vocabulary */
  uint32_t width, height;
  unsigned dtype; /* a tensor: index into the vocabulary */
  unsigned rank;
  uint64_t shape[CONFIG_MAX_RANK];
};

struct config_allow { /* empty lists: everybody whom the file mode allows */
  uid_t *users;
  unsigned user_count;
  gid_t *groups;
  unsigned group_count;
};

struct config_socket_access {
  mode_t mode;
  uid_t owner; /* (uid_t)-1: as created */
  gid_t group; /* (gid_t)-1: as created */
  struct config_allow allow;
};

struct config_source {
  struct config_mark at;
  enum config_endpoint endpoint; /* CONFIG_SOCKET, CONFIG_FILE or CONFIG_CAMERA */
  char *path;                    /* "-" is standard input (a file); for CONFIG_CAMERA the URL, without secrets */
  struct config_mark path_at;
  enum config_protocol protocol;
  struct config_format format;
  unsigned clients;
  int64_t timeout_ns; /* for the rest of an incomplete frame */
  int64_t expect_ns;  /* the longest pause between frames; 0: unknown */
  struct config_socket_access access;
  double rate;       /* files: frames per second; 0: as fast as possible */
  double pace;       /* recordings: speed relative to the recording; INFINITY: as fast as possible; 0: not a recording */
  bool loop;         /* files */
  char *credentials; /* CONFIG_CAMERA: the name of a file with user and password; NULL: none */
  enum config_transport transport;
};

/* The shape of a model's input, for sizes that its file leaves open. */
struct config_shape {
  char *input;
  unsigned rank;
  int64_t sides[CONFIG_MAX_SIDES];
};

struct config_batch {
  unsigned most; /* 0: no batches */
  int64_t wait_ns;
};

struct config_model {
  struct config_mark at; /* its name, or the stage that names a file */
  char *name;            /* like a pipeline's; NULL: a stage names its file */
  char *file;
  struct config_mark file_at;
  struct config_shape *shapes;
  unsigned shape_count;
  unsigned instances;
  int64_t memory; /* limit of each instance; 0: no limit */
  enum config_precision precision;
  char *output; /* "all", or the name of one; NULL: the only one */
  struct config_batch batch;
  void *open;                /* the caller's hook opened this model */
  void (*close)(void *open); /* closes `open` */
  uint64_t contents;         /* a number that identifies the contents of its files */
  char *text;                /* canonical, without the name, with `contents`: models are equal if their texts are equal */
};

struct config_setting {
  char *name;
  char *text; /* NULL: numbers */
  unsigned count;
  double numbers[CONFIG_MAX_NUMBERS];
};

struct config_stage {
  struct config_mark at;
  unsigned type;                    /* index into the vocabulary */
  const struct config_model *model; /* of a stage that runs a model */
  struct config_value {
    bool given;
    unsigned count;
    double numbers[CONFIG_MAX_NUMBERS];
    char *text; /* of CONFIG_WORD and CONFIG_PATH (the whole path) */
    struct config_setting *settings;
    unsigned setting_count;
  } values[CONFIG_MAX_PARAMETERS];
};

/*
 * When the disk is full, the oldest segments are removed, or the recording stops. AUTO is REMOVE_OLDEST with `keep` or `most`,
 * else STOP.
 */
enum config_full { CONFIG_FULL_AUTO, CONFIG_FULL_REMOVE_OLDEST, CONFIG_FULL_STOP };

enum { CONFIG_DEFAULT_MOST = 80 }; /* percent of the file system, without `keep` and `most` */

struct config_rotate {    /* 0: never, no limit */
  int64_t every_ns, size; /* the limits of one segment */
  int64_t keep_ns, most;  /* how long finished segments stay, and the limit of bytes of all */
  enum config_full full;
};

struct config_sink {
  struct config_mark at;
  enum config_endpoint endpoint;
  char *path; /* NULL with CONFIG_REPLY; "-" is standard output */
  struct config_mark path_at;
  enum config_protocol protocol;
  enum config_sink_overload overload; /* CONFIG_SINK_BLOCK with CONFIG_REPLY and for files */
  unsigned slow_readers;
  struct config_rotate rotate; /* files: every_ns or size is set if there are segments */
  bool records;                /* it records the source's frames, for `record` */
  struct config_socket_access access;
};

/* The recording of a source's frames, in segments. */
struct config_record {
  char *file; /* NULL: no recording */
  struct config_mark file_at;
  enum config_protocol protocol;
  enum config_record_when when;
  int64_t before_ns, after_ns; /* around an event */
  int64_t memory;              /* bytes of frames that wait for an event, or for the disk */
  struct config_rotate rotate;
};

struct config_pipeline {
  struct config_mark at;
  char *name;       /* letters, digits, '_', '-', '.'; at most 64 */
  unsigned device;  /* the first of `devices`, if these are set */
  uint64_t devices; /* a bit for each device of the sessions; 0: only `device`; CONFIG_ALL_DEVICES: all */
  enum config_spread spread;
  struct config_source source;
  unsigned slots;
  enum config_completion completion;
  int64_t spin_for_ns;
  enum config_graph graph;
  enum config_overload overload;
  int64_t deadline_ns; /* 0: none */
  enum config_priority priority;
  unsigned share; /* percent of a GPU; 0: the whole GPU */
  struct config_stage stages[CONFIG_MAX_STAGES];
  unsigned stage_count;
  struct config_sink sink;
  struct config_record record;
  char *text; /* canonical, with all defaults, models and identities of files: pipelines are equal if their texts are equal */
  char *ends; /* `text` without the stages */
};

struct config_processors { /* no bit: all processors */
  uint64_t bits[CONFIG_MAX_PROCESSORS / 64];
};

static inline bool config_has_processor(const struct config_processors *processors, unsigned number) {
  return (processors->bits[number / 64] >> number % 64 & 1) != 0;
}

/* The scheduling of the lanes. */
struct config_realtime {
  struct config_mark at;
  enum config_policy policy;
  unsigned priority; /* 0: no policy */
  struct config_processors processors;
  bool lock;
};

struct config_limits { /* 0: no limit */
  unsigned sessions_per_user, readers_per_user;
  int64_t memory_per_user; /* bytes */
};

struct config {
  enum config_log_level log_level;
  unsigned lanes; /* 0: auto */
  int64_t drain_timeout_ns;
  struct {
    char *socket; /* path of the status socket */
    struct config_mark socket_at;
    char *http; /* "host:port", or NULL */
    struct config_mark http_at;
    char *token; /* path of a file, or NULL */
  } status;
  struct {
    enum config_backend backend;
    unsigned device;
    unsigned count; /* devices of the CPU backend */
    int64_t timeout_ns;
    unsigned faults; /* limit of faults per minute from which the daemon recovers */
    enum config_standby standby;
  } gpu;
  struct config_limits limits;
  struct config_realtime realtime;
  struct config_model **models; /* first those with a name, in the order of the files, then the others */
  unsigned model_count;
  struct config_pipeline *pipelines; /* in the order of the files */
  unsigned pipeline_count;
  char *text;   /* canonical YAML of everything, as --print-config prints it */
  char **files; /* the names of the files read, which marks share */
  unsigned file_count;
};

/* -- loading ------------------------------------------------------------------------------------------------ */

/*
 * Errors in the order of files and lines. An error as text has up to four lines:
 *   /etc/framed/framed.yaml:12:5: unknown key 'slot' in pipeline 'cam0'
 *       slot: 3
 *       ^~~~
 *     did you mean 'slots'?
 */
struct config_errors;

struct config_errors *config_errors_new(void);
struct config_errors *config_errors_free(struct config_errors *errors);
/* Adds an error with a printf text. `remedy` (or NULL) becomes the last line. The file's line is quoted if it is known. */
__attribute__((format(printf, 4, 5))) void config_errors_add(struct config_errors *errors, struct config_mark at,
                                                             const char *remedy, const char *format, ...);
unsigned config_errors_count(const struct config_errors *errors);
/* Whether all errors are of the system and may pass: memory or descriptors were short, or a disk failed. */
bool config_errors_pass(const struct config_errors *errors);
/* The whole report; owned by errors, valid until the next call for the same errors. */
const char *config_errors_text(struct config_errors *errors);

struct config_hooks {
  const struct config_vocabulary *vocabulary;
  /*
   * Called for each model that a stage runs, before the pipelines. Sets `open` and `close`, or adds errors and returns false.
   * Then pipelines with this model are not checked. NULL: models are not opened.
   */
  bool (*open)(struct config_model *model, struct config_errors *errors, void *context);
  /* Called for each pipeline that is valid in itself. Adds errors that only the caller can find. */
  void (*check)(const struct config *config, const struct config_pipeline *pipeline, struct config_errors *errors,
                void *context);
  void *context;
  const char *example; /* path of a commented example configuration, or NULL */
};

/*
 * Reads `path` and the files conf.d/NAME.yaml beside it, in the order of their names. Later files add pipelines and override
 * scalar keys; a pipeline in two files is an error. NULL if there was any error.
 */
struct config *config_load(const char *path, const struct config_hooks *hooks, struct config_errors *errors);
/* Reads a text from memory, for tests and fuzzing, without conf.d. Messages use `name` as the file's name. */
struct config *config_parse(const char *name, const char *text, size_t length, const struct config_hooks *hooks,
                            struct config_errors *errors);
struct config *config_free(struct config *config);

/* The path of the file with the credentials of that name. It is in $CREDENTIALS_DIRECTORY if it exists there, else in
 * /etc/framed/credentials. */
void config_credentials_path(const char *name, char *path, size_t size);

/* A list of opened models that no configuration uses any more. Closing one may take long. */
struct config_opened {
  struct config_opened *next;
  void *open;
  void (*close)(void *open);
};
/* Moves the open model to the head of the list, and returns the new head. A second call does nothing. */
struct config_opened *config_take_opened(struct config_model *model, struct config_opened *list);
void config_close(struct config_opened *list); /* from any thread; NULL is valid */

/* Whether a stage of this pipeline runs the model, or a stage of any pipeline. */
bool config_runs(const struct config_pipeline *pipeline, const struct config_model *model);
bool config_is_run(const struct config *config, const struct config_model *model);

/* Prints the JSON schema of the file for this vocabulary, for editors. */
void config_print_schema(FILE *out, const struct config_vocabulary *vocabulary);
/* Prints the table of keys as roff for framed.yaml(5): names, types, defaults, help. */
void config_print_manual(FILE *out, const struct config_vocabulary *vocabulary);

extern const char *const config_backend_names[];
extern const char *const config_standby_names[];
extern const char *const config_protocol_names[]; /* the names of all protocols */
extern const char *const config_source_protocol_names[];
extern const char *const config_sink_protocol_names[];
extern const char *const config_completion_names[];
extern const char *const config_precision_names[];
extern const char *const config_spread_names[];
extern const char *const config_priority_names[];
extern const char *const config_policy_names[];
extern const char *const config_graph_names[];
extern const char *const config_overload_names[];
extern const char *const config_sink_overload_names[];
extern const char *const config_record_protocol_names[];
extern const char *const config_record_when_names[];
extern const char *const config_full_names[];
extern const char *const config_log_level_names[];
extern const char *const config_transport_names[];

#endif
