/*
 * The validated configuration: plain data that the rest of the program only reads.
 *
 * config_load() is the only way to make one, and it gives either a whole valid configuration or every error of
 * every file at once, each with its place. This directory knows nothing of GPU and daemon: names of stages,
 * parameters, pixel formats and element types come in as a vocabulary, and a hook checks what only the caller
 * can judge (formats that fit each other, memory). Keys, types, defaults, bounds and help stand in keys.def.
 */
#ifndef FRAMED_CONFIG_CONFIG_H
#define FRAMED_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Where something stands in a file, for messages; line and column count from 1, 0 means nowhere (a default). */
struct config_mark {
  const char *file; /* owned by the configuration or its errors */
  unsigned line, column;
};

/* -- what the caller knows -------------------------------------------------------------------------------- */

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
  CONFIG_WORD,    /* a text */
  CONFIG_PATH,    /* of a file; a relative one begins at the folder of the configuration file */
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
  bool runs_model; /* the one that its parameter `name` or `file` says */
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
  CONFIG_PROTOCOL_JSON, /* sinks: a line a result */
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
  unsigned pixels; /* index into the vocabulary; of an image */
  uint32_t width, height;
  unsigned dtype; /* index into the vocabulary; of a tensor */
  unsigned rank;
  uint64_t shape[CONFIG_MAX_RANK];
};

struct config_allow { /* empty lists: whoever the file mode lets in */
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
  char *path;                    /* "-" is standard input (a file); of CONFIG_CAMERA the URL, which has no secret in it */
  struct config_mark path_at;
  enum config_protocol protocol;
  struct config_format format;
  unsigned clients;
  int64_t timeout_ns; /* for the rest of a frame that has begun */
  int64_t expect_ns;  /* a frame has to come so often; 0: nobody knows */
  struct config_socket_access access;
  double rate;       /* files: frames a second; 0: as fast as they go */
  double pace;       /* recordings: times as fast as recorded; INFINITY: as fast as they go; 0: it is no recording */
  bool loop;         /* files */
  char *credentials; /* CONFIG_CAMERA: the name of a file with user and password; NULL: none */
  enum config_transport transport;
};

/* What a model's input is, where its file leaves that open. */
struct config_shape {
  char *input;
  unsigned rank;
  int64_t sides[CONFIG_MAX_SIDES];
};

struct config_batch {
  unsigned most; /* 0: frames go by themselves */
  int64_t wait_ns;
};

struct config_model {
  struct config_mark at; /* its name, or the stage that names a file */
  char *name;            /* as a pipeline's; NULL: a stage names its file */
  char *file;
  struct config_mark file_at;
  struct config_shape *shapes;
  unsigned shape_count;
  unsigned instances;
  int64_t memory; /* of each, at most; 0: no limit */
  enum config_precision precision;
  char *output; /* "all", or the name of one; NULL: the only one */
  struct config_batch batch;
  void *open;                /* what the caller's hook opened for it, */
  void (*close)(void *open); /* what gives that back, */
  uint64_t contents;         /* and a number that other contents of its files do not have */
  char *text;                /* canonical, without the name, and the contents: equal texts, equal models */
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
  const struct config_model *model; /* of a stage that runs one */
  struct config_value {
    bool given;
    unsigned count;
    double numbers[CONFIG_MAX_NUMBERS];
    char *text; /* of CONFIG_WORD and CONFIG_PATH (the whole path) */
    struct config_setting *settings;
    unsigned setting_count;
  } values[CONFIG_MAX_PARAMETERS];
};

/* A full disk removes the oldest segments, or stops the recording. AUTO is REMOVE_OLDEST with `keep` or `most`, else STOP. */
enum config_full { CONFIG_FULL_AUTO, CONFIG_FULL_REMOVE_OLDEST, CONFIG_FULL_STOP };

enum { CONFIG_DEFAULT_MOST = 80 }; /* percent of the file system, without `keep` and `most` */

struct config_rotate {    /* 0: never, no limit */
  int64_t every_ns, size; /* when the next segment begins */
  int64_t keep_ns, most;  /* how long finished ones stay, and how many bytes all may take */
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
  struct config_rotate rotate; /* files: every_ns or size, if there are segments */
  bool records;                /* it takes what came in, for `record` */
  struct config_socket_access access;
};

/* What came in, in segments. */
struct config_record {
  char *file; /* NULL: nothing is recorded */
  struct config_mark file_at;
  enum config_protocol protocol;
  enum config_record_when when;
  int64_t before_ns, after_ns; /* around what was seen */
  int64_t memory;              /* bytes of frames that wait for what is seen, or to be written */
  struct config_rotate rotate;
};

struct config_pipeline {
  struct config_mark at;
  char *name;       /* letters, digits, '_', '-', '.'; at most 64 */
  unsigned device;  /* the first of `devices`, if there are any */
  uint64_t devices; /* a bit for each that sessions are placed on; 0: `device` alone; CONFIG_ALL_DEVICES: all there are */
  enum config_spread spread;
  struct config_source source;
  unsigned slots;
  enum config_completion completion;
  int64_t spin_for_ns;
  enum config_graph graph;
  enum config_overload overload;
  int64_t deadline_ns; /* 0: none */
  enum config_priority priority;
  unsigned share; /* percent of a GPU; 0: all of it */
  struct config_stage stages[CONFIG_MAX_STAGES];
  unsigned stage_count;
  struct config_sink sink;
  struct config_record record;
  char *text; /* canonical, with every default, its models, and which files stages name: equal texts, equal pipelines */
  char *ends; /* the same of all but its stages */
};

struct config_processors { /* none: all that there are */
  uint64_t bits[CONFIG_MAX_PROCESSORS / 64];
};

static inline bool config_has_processor(const struct config_processors *processors, unsigned number) {
  return (processors->bits[number / 64] >> number % 64 & 1) != 0;
}

/* How lanes get the time of processors. */
struct config_realtime {
  struct config_mark at;
  enum config_policy policy;
  unsigned priority; /* 0: without a policy */
  struct config_processors processors;
  bool lock;
};

struct config_limits { /* 0: none */
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
    unsigned faults; /* a minute, from which the daemon recovers */
    enum config_standby standby;
  } gpu;
  struct config_limits limits;
  struct config_realtime realtime;
  struct config_model **models; /* those with a name in the order of the files, then those without */
  unsigned model_count;
  struct config_pipeline *pipelines; /* in the order of the files */
  unsigned pipeline_count;
  char *text;   /* canonical YAML of everything, as --print-config prints it */
  char **files; /* names of the files read, to which marks point */
  unsigned file_count;
};

/* -- loading ------------------------------------------------------------------------------------------------ */

/* Errors in order of file and line. One error as text is up to four lines:
 *   /etc/framed/framed.yaml:12:5: unknown key 'slot' in pipeline 'cam0'
 *       slot: 3
 *       ^~~~
 *     did you mean 'slots'?                                                                                    */
struct config_errors;

struct config_errors *config_errors_new(void);
struct config_errors *config_errors_free(struct config_errors *errors);
/* Adds one with a printf text; `remedy` (or NULL) is the last line. The file's own line is quoted if it is known. */
__attribute__((format(printf, 4, 5))) void config_errors_add(struct config_errors *errors, struct config_mark at,
                                                             const char *remedy, const char *format, ...);
unsigned config_errors_count(const struct config_errors *errors);
/* Whether none is of the text: memory or descriptors were short, or a disk failed, which may be over in a moment. */
bool config_errors_pass(const struct config_errors *errors);
/* The whole report; owned by errors, valid until the next call with them. */
const char *config_errors_text(struct config_errors *errors);

struct config_hooks {
  const struct config_vocabulary *vocabulary;
  /* Called for each model that a stage runs, before the pipelines: sets its `open` and `close`, or adds errors and gives false.
   * Pipelines that run that one are not checked then. NULL: nothing is opened. */
  bool (*open)(struct config_model *model, struct config_errors *errors, void *context);
  /* Called for each pipeline that is valid in itself; adds errors for what the caller alone can judge. */
  void (*check)(const struct config *config, const struct config_pipeline *pipeline, struct config_errors *errors,
                void *context);
  void *context;
  const char *example; /* path of a commented configuration to start from, or NULL */
};

/* Reads `path` and, beside it, conf.d/NAME.yaml in the order of their names (later files add pipelines and
 * override scalar keys; the same pipeline twice is an error). NULL if there was any error. */
struct config *config_load(const char *path, const struct config_hooks *hooks, struct config_errors *errors);
/* The same from memory, for tests and fuzzing; `name` stands in the messages. No conf.d. */
struct config *config_parse(const char *name, const char *text, size_t length, const struct config_hooks *hooks,
                            struct config_errors *errors);
struct config *config_free(struct config *config);

/* Path of the file with the credentials of that name: in $CREDENTIALS_DIRECTORY if it is there, else in
 * /etc/framed/credentials. */
void config_credentials_path(const char *name, char *path, size_t size);

/* What was opened for a model that nobody runs any more, in a list. Closing it may take long. */
struct config_opened {
  struct config_opened *next;
  void *open;
  void (*close)(void *open);
};
/* Takes it out of the model onto the list, of which it returns the first. Idempotent. */
struct config_opened *config_take_opened(struct config_model *model, struct config_opened *list);
void config_close(struct config_opened *list); /* from any thread; NULL is fine */

/* Whether a stage runs it: of that pipeline, or of any. */
bool config_runs(const struct config_pipeline *pipeline, const struct config_model *model);
bool config_is_run(const struct config *config, const struct config_model *model);

/* The JSON schema of the file for this vocabulary, for editors. */
void config_print_schema(FILE *out, const struct config_vocabulary *vocabulary);
/* The table of keys as roff for framed.yaml(5): names, types, defaults, help. */
void config_print_manual(FILE *out, const struct config_vocabulary *vocabulary);

extern const char *const config_backend_names[];
extern const char *const config_standby_names[];
extern const char *const config_protocol_names[]; /* all of them */
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
