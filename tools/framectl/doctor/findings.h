/* The findings of `framectl doctor`: a list of checks, each with a verdict and sometimes a remedy. */
#ifndef FRAMED_TOOLS_FRAMECTL_DOCTOR_FINDINGS_H
#define FRAMED_TOOLS_FRAMECTL_DOCTOR_FINDINGS_H

enum verdict {
  VERDICT_FINE,
  VERDICT_BETTER /* it could be better */,
  VERDICT_UNKNOWN,
  VERDICT_BAD /* it does not work */,
  VERDICT_COUNT
};

extern const char *const verdict_names[VERDICT_COUNT];

enum { FINDINGS_LIMIT = 64, FINDING_TEXT = 512 };

struct finding {
  const char *check; /* a constant: "clocks" */
  enum verdict verdict;
  char text[FINDING_TEXT];
  const char *remedy; /* must live as long as the findings; NULL: none */
};

struct findings { /* zero before use */
  struct finding items[FINDINGS_LIMIT];
  unsigned count, left_out;
};

/* Adds a finding. Those over the limit are only counted. */
__attribute__((format(printf, 5, 6))) void findings_add(struct findings *findings, const char *check, enum verdict verdict,
                                                        const char *remedy, const char *format, ...);
unsigned findings_count(const struct findings *findings, enum verdict verdict);

#endif
