# framed: build, test, install. `make help` lists the targets.
#
# Objects live in build/VARIANT/, one directory for each set of compiler flags; the release programs are linked to
# build/ itself. Sources are found by directory, so a new file needs no line here.

VARIANT ?= release
VERSION := 0.1.0

CC      ?= gcc
NVCC    ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
CUDA    ?= $(patsubst %/bin/nvcc,%,$(NVCC))
PYTHON  ?= /usr/bin/python3
PREFIX  ?= /usr/local

out := build/$(VARIANT)
bin := $(if $(filter release,$(VARIANT)),build,$(out))

# -- flags -------------------------------------------------------------------------------------------------------
warnings := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla \
            $(if $(WERROR),-Werror)
common   := -std=c11 -D_GNU_SOURCE -I. -pthread -fno-common -ffp-contract=off -fno-math-errno -fno-trapping-math $(warnings) \
            -DFRAMED_VERSION='"$(VERSION)"' -MMD -MP -g
hardening := -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE
libraries := libuv yaml-0.1 libsystemd libmicrohttpd jansson
ncurses  := ncursesw

flags_release  := -O3 $(hardening)
flags_check    := -O1 -DFRAMED_FAULTS -DFRAMED_CHECK $(hardening)
flags_asan     := -O1 -DFRAMED_FAULTS -DFRAMED_CHECK -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
flags_tsan     := -O1 -DFRAMED_FAULTS -DFRAMED_CHECK -fsanitize=thread -fno-omit-frame-pointer
flags_coverage := -O0 -DFRAMED_FAULTS -DFRAMED_CHECK --coverage -fprofile-update=atomic
flags_fuzz     := -O1 -DFRAMED_FAULTS -DFRAMED_CHECK -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer
ifeq ($(VARIANT),fuzz)
CC := clang
endif
ifndef flags_$(VARIANT)
$(error unknown VARIANT '$(VARIANT)': one of release check asan tsan coverage fuzz)
endif

flags   := $(common) $(flags_$(VARIANT)) $(CFLAGS)
pie     := -pie -Wl,-z,relro,-z,now
link    := -pthread $(filter -fsanitize% --coverage,$(flags_$(VARIANT))) $(if $(filter -fPIE,$(flags)),$(pie)) $(LDFLAGS)
packages = $(shell pkg-config --cflags $(libraries) $(ncurses) 2>/dev/null)
libs     = $(shell pkg-config --libs $(libraries)) -lm

# -- sources -----------------------------------------------------------------------------------------------------
config_sources := $(wildcard config/*.c)
gpu_sources    := $(filter-out gpu/cuda%.c,$(wildcard gpu/*.c)) $(wildcard gpu/stages/*.c)
daemon_sources := $(filter-out daemon/main.c,$(wildcard daemon/*.c))

# The GPU backend needs nvcc; sanitizer and fuzzing builds leave it out, since their machines have no GPU.
with_cuda := $(if $(and $(NVCC),$(filter release check,$(VARIANT)),$(if $(NO_CUDA),,yes)),yes)
ifeq ($(with_cuda),yes)
gpu_sources  += $(wildcard gpu/cuda*.c)
cuda_kernels := $(wildcard gpu/stages/*.cu)
cuda_flags   := -DFRAMED_CUDA -isystem $(CUDA)/include
cuda_libs    := -L$(CUDA)/lib64 -lcudart_static -ldl -lrt -static-libgcc -Wl,-Bstatic -lstdc++ -Wl,-Bdynamic
architectures ?= -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80 \
                 -gencode arch=compute_90,code=[sm_90,compute_90]
nvcc_flags   := -std=c++17 -O3 --fmad=false -I. -DFRAMED_CUDA $(filter -DFRAMED_FAULTS,$(flags)) $(architectures) --threads 2 \
                -Xcompiler -fPIE,-Wall,-Wextra
endif

objects = $(addprefix $(out)/obj/,$(addsuffix .o,$(1)))
config_objects := $(call objects,$(config_sources))
gpu_objects    := $(call objects,$(gpu_sources) $(cuda_kernels))
daemon_objects := $(call objects,$(daemon_sources))
framectl_objects := $(call objects,$(wildcard tools/framectl/*.c))

# -- programs ----------------------------------------------------------------------------------------------------
.PHONY: all help setup programs unit check demo lint coverage fuzz install uninstall portable check-gpu clean
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

all: programs
programs: $(bin)/framed $(bin)/framectl
	@$(if $(with_cuda),,echo "note: no nvcc found (or not wanted): this build has the CPU backend only")

$(bin)/framed: $(call objects,daemon/main.c) $(daemon_objects) $(gpu_objects) $(config_objects)
	$(CC) $(link) -o $@ $^ $(libs) $(cuda_libs)

$(bin)/framectl: $(framectl_objects) $(out)/obj/daemon/ledger.c.o
	$(CC) $(link) -o $@ $^ $(shell pkg-config --libs jansson $(ncurses)) -lm

$(out)/obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(CC) $(flags) $(packages) $(cuda_flags) -c -o $@ $<

$(out)/obj/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(NVCC) $(nvcc_flags) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

# -- unit tests: one program for each directory of tests/unit, linked with the layers below it ----------------------
# tests/unit/DIR/test_NAME.c defines `Suite *NAME_suite(void)`; the list of suites is generated.
unit_dirs := $(notdir $(patsubst %/,%,$(wildcard tests/unit/*/)))
unit_programs := $(patsubst %,$(out)/tests/unit-%,$(unit_dirs))
unit_libs := $(shell pkg-config --libs check 2>/dev/null)
unit_layers_config := $(config_objects)
unit_layers_gpu    := $(gpu_objects)
unit_layers_daemon := $(config_objects) $(gpu_objects) $(daemon_objects)
unit_layers_tools  := $(filter-out %/main.c.o,$(framectl_objects)) $(out)/obj/daemon/ledger.c.o

$(out)/obj/tests/unit/%/suites.c: tests/unit/%
	@mkdir -p $(@D)
	@{ echo '#include "tests/unit/runner.h"'; \
	   for suite in $(patsubst test_%.c,%,$(notdir $(wildcard $</test_*.c))); do echo "Suite *$${suite}_suite(void);"; done; \
	   echo 'const struct unit_suite unit_suites[] = {'; \
	   for suite in $(patsubst test_%.c,%,$(notdir $(wildcard $</test_*.c))); do echo "    {\"$$suite\", $${suite}_suite},"; done; \
	   echo '    {0, 0}};'; } > $@

$(out)/obj/tests/unit/%/suites.o: $(out)/obj/tests/unit/%/suites.c
	$(CC) $(flags) -c -o $@ $<

define unit_program
$(out)/tests/unit-$(1): $(call objects,tests/unit/runner.c $(wildcard tests/unit/$(1)/*.c)) $(out)/obj/tests/unit/$(1)/suites.o $$(unit_layers_$(1))
	@mkdir -p $$(@D)
	$$(CC) $$(link) -o $$@ $$^ $$(libs) $$(unit_libs) $$(shell pkg-config --libs $$(ncurses)) $$(cuda_libs)
endef
$(foreach dir,$(unit_dirs),$(eval $(call unit_program,$(dir))))

unit: $(unit_programs)
	@for program in $^; do echo "== $$program"; $$program || exit 1; done

clean:
	rm -rf build

-include $(shell find $(out)/obj -name '*.d' 2>/dev/null)
