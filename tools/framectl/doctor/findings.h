/* What `framectl doctor` found out about the machine: a list of checks, each with a verdict and, if there is one, a remedy. */
#ifndef FRAMED_TOOLS_FRAMECTL_DOCTOR_FINDINGS_H
#define FRAMED_TOOLS_FRAMECTL_DOCTOR_FINDINGS_H

enum verdict {
  VERDICT_FINE,
  VERDICT_BETTER /* it could be better */,
  VERDICT_UNKNOWN,
  VERDICT_BAD /* it does not do its job */,
  VERDICT_COUNT
};

extern const char *const verdict_names[VERDICT_COUNT];

enum { FINDINGS_LIMIT = 64, FINDING_TEXT = 512 };

struct finding {
  const char *check; /* a constant: "clocks" */
  enum verdict verdict;
  char text[FINDING_TEXT];
  const char *remedy; /* lives as long as the findings; NULL: none */
};

struct findings { /* zero before use */
  struct finding items[FINDINGS_LIMIT];
  unsigned count, left_out;
};

/* Adds one; what is over the limit is left out, and counted. */
__attribute__((format(printf, 5, 6))) void findings_add(struct findings *findings, const char *check, enum verdict verdict,
                                                        const char *remedy, const char *format, ...);
/* How many have that verdict. */
unsigned findings_count(const struct findings *findings, enum verdict verdict);

#endif
