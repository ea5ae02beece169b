# framed: build, test, install. `make help` lists the targets.
#
# Objects are in build/VARIANT/, one folder for each set of compiler flags; the release programs are in build/ itself.
# Sources are found by folder, so a new file needs no line here. V=1 shows whole commands, and WERROR=1 makes warnings
# errors. NO_CUDA=1 leaves out the GPU backend. GPUS=all compiles kernels for every generation, instead of only for this
# machine's GPU. NVTX=1 names the lanes' steps for Nsight Systems.

VARIANT ?= release
VERSION := 0.1.0

ifeq ($(origin CC),default)
CC := gcc
endif
OBJCOPY ?= objcopy
NVCC    ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
CUDA    ?= $(patsubst %/bin/nvcc,%,$(NVCC))
PYTHON  ?= /usr/bin/python3
PREFIX  ?= /usr/local
SYSCONFDIR ?= /etc
LIBFOLDER ?= lib
DESTDIR ?=
export PYTHON NVCC
# Tests find promtool in this folder, if tools/setup.sh had to fetch it.
export PATH := $(PATH):$(CURDIR)/build
# It also has ONNX Runtime, which tools/setup.sh fetches; without it some tests are skipped.
ifneq ($(wildcard $(CURDIR)/build/onnxruntime),)
export FRAMED_ONNXRUNTIME ?= $(CURDIR)/build/onnxruntime
endif

out := build/$(VARIANT)
bin := $(if $(filter release,$(VARIANT)),build,$(out))
unit_folder := $(out)/tests
ifdef PORTABLE
bin := build/portable$(if $(filter check,$(VARIANT)),/check)
unit_folder := build/portable/tests
endif
comma := ,
space := $(subst ,, )
quiet = $(if $(V),,@printf '  %-5s %s\n' $(1) $@;)

# -- flags -------------------------------------------------------------------------------------------------------
warnings := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla \
            $(if $(WERROR),-Werror)
nvtx     := $(if $(NVTX),-DFRAMED_NVTX $(patsubst %,-isystem %/include,$(filter-out /usr,$(CUDA))))
# Ubuntu's compilers define _FORTIFY_SOURCE themselves. Sanitizers do not see the calls it makes, and tests cannot replace them.
common   := -std=c11 -D_GNU_SOURCE -U_FORTIFY_SOURCE -I. -pthread -fno-common -ffp-contract=off -fno-math-errno -fno-trapping-math $(warnings) \
            -DFRAMED_VERSION='"$(VERSION)"' $(nvtx) -MMD -MP -g
hardening := -fstack-protector-strong -D_FORTIFY_SOURCE=2 -fPIE
libraries := libuv yaml-0.1 libsystemd libmicrohttpd jansson libturbojpeg
for_tools := ncursesw libpng
# Only framed-link needs these. Without libnats it is not built, and without libmosquitto it has no MQTT.
nats     := $(if $(PORTABLE),,$(shell pkg-config --exists libnats 2>/dev/null && echo libnats))
mqtt     := $(if $(nats),$(shell pkg-config --exists libmosquitto 2>/dev/null && echo libmosquitto))
# Only framed-camera needs these. With libseccomp it restricts its own system calls.
libav    := $(if $(PORTABLE),,$(shell pkg-config --exists libavformat libavcodec libswscale libavutil 2>/dev/null && \
              echo libavformat libavcodec libswscale libavutil))
seccomp  := $(if $(libav),$(shell pkg-config --exists libseccomp 2>/dev/null && echo libseccomp))
testing  := -DFRAMED_FAULTS -DFRAMED_CHECK

flags_release  := -O3 $(hardening)
flags_check    := -O1 $(testing) $(hardening)
# More optimisation would double the compile time of sanitizer builds. Line numbers are enough debug information for their reports.
flags_asan     := -O1 -g1 $(testing) -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
flags_tsan     := -O1 -g1 $(testing) -fsanitize=thread -Wno-tsan -fno-omit-frame-pointer
flags_coverage := -O0 $(testing) --coverage -fprofile-update=atomic
flags_fuzz     := -O1 -g1 $(testing) -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined \
                  -fno-omit-frame-pointer
flags_calls    := -O1 -fno-inline
ifeq ($(VARIANT),fuzz)
CC := clang
endif
ifndef flags_$(VARIANT)
$(error unknown VARIANT '$(VARIANT)': one of release check asan tsan coverage fuzz calls)
endif

# Targets that install what is missing, or need nothing, come first; everything else needs the headers.
needs_nothing := help setup clean quick check soak check-gpu check-systems check-container bench demo demo-model lint coverage fuzz portable uninstall deb
packages := $(shell pkg-config --cflags $(libraries) $(for_tools) 2>/dev/null || echo missing)
ifeq ($(lastword $(packages)),missing)
ifneq ($(filter-out $(needs_nothing),$(or $(MAKECMDGOALS),all)),)
$(error libraries are missing: run 'make setup' (it says what it installs), then make again)
endif
endif

flags := $(common) $(flags_$(VARIANT)) $(CFLAGS)
pie   := -pie -Wl,-z,relro,-z,now
# Portable programs and their libraries find libraries relative to themselves.
portable_link := -Wl,--strip-debug,--disable-new-dtags,-rpath,'$$ORIGIN/lib:$$ORIGIN/../lib'
link  := -pthread $(filter -fsanitize% --coverage,$(flags_$(VARIANT))) $(if $(filter -fPIE,$(flags)),$(pie)) $(if $(PORTABLE),$(portable_link)) \
         $(LDFLAGS)
libs  := $(shell pkg-config --libs $(libraries) 2>/dev/null) -lm
framectl_libs := $(shell pkg-config --libs jansson $(for_tools) 2>/dev/null) -lm -ldl
unit_libs := $(shell pkg-config --libs check $(for_tools) 2>/dev/null) -ldl
camera_libs := $(shell pkg-config --libs jansson $(libav) $(seccomp) 2>/dev/null) -lm

# -- sources -----------------------------------------------------------------------------------------------------
config_sources := $(wildcard config/*.c)
record_sources := $(wildcard gpu/record/*.c) gpu/format.c gpu/kept.c gpu/model/operators.c
gpu_sources    := $(filter-out gpu/model/cuda%.c,$(wildcard gpu/*.c gpu/record/*.c gpu/cpu/*.c gpu/model/*.c gpu/stages/*.c gpu/stages/*/*.c))
# Test builds have an additional stage, which makes devices fail.
fault_stage    := $(if $(filter -DFRAMED_FAULTS,$(flags_$(VARIANT))),tests/fault/fault)
gpu_sources    += $(if $(fault_stage),$(wildcard tests/fault/*.c))
record_sources += $(if $(fault_stage),tests/fault/about.c)
daemon_sources := $(wildcard daemon/*/*.c)
link_sources := $(filter-out $(if $(mqtt),tools/link/mqtt_absent.c,tools/link/mqtt.c tools/link/mqtt_client.c),$(wildcard tools/link/*.c))
framebench_cuda := $(wildcard tools/framebench/*/cuda*.c)
framebench_sources := $(filter-out $(framebench_cuda),$(wildcard tools/framebench/*.c tools/framebench/*/*.c))

# The GPU backend needs nvcc; sanitizer and fuzzing builds leave it out, since their machines have no GPU.
with_cuda := $(if $(and $(NVCC),$(filter release check,$(VARIANT)),$(if $(NO_CUDA),,yes)),yes)
ifeq ($(with_cuda),yes)
gpu_sources  += $(wildcard gpu/cuda/*.c gpu/model/cuda*.c)
cuda_kernels := $(wildcard gpu/cuda/*.cu gpu/model/*.cu gpu/stages/*.cu gpu/stages/*/*.cu) $(fault_stage:%=%.cu)
framebench_sources += $(framebench_cuda) $(wildcard tools/framebench/*/*.cu)
ifneq ($(filter-out $(needs_nothing),$(or $(MAKECMDGOALS),all)),)
cuda_trouble := $(shell NVCC='$(NVCC)' tools/setup.sh backend 2>&1 >/dev/null)
$(if $(cuda_trouble),$(error $(cuda_trouble)))
endif
cuda_folder  := $(filter-out /usr,$(CUDA))
cuda_flags   := -DFRAMED_CUDA $(cuda_folder:%=-isystem %/include)
cuda_libs    := $(cuda_folder:%=-L%/lib64) -lcudart_static -ldl -lrt -static-libgcc -Wl,-Bstatic -lstdc++ -Wl,-Bdynamic
# Kernels are compiled for this machine's GPUs, since each further architecture costs as much time as the first. Without a GPU,
# and with GPUS=all (packages, build/portable), they are compiled for Turing to Blackwell, as far as this nvcc supports them.
# The PTX of the newest one serves later GPUs.
cuda_known   := $(filter 75 80 86 87 89 90 100 120,$(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch)))
GPUS         ?= $(if $(PORTABLE),all,here)
cuda_here    := $(if $(filter here,$(GPUS)),$(filter $(cuda_known),$(sort $(subst .,,$(shell nvidia-smi \
                  --query-gpu=compute_cap --format=csv$(comma)noheader 2>/dev/null)))))
cuda_for     := $(or $(cuda_here),$(cuda_known))
architectures ?= $(foreach arch,$(cuda_for),-gencode arch=compute_$(arch),code=sm_$(arch)) \
                 -gencode arch=compute_$(lastword $(cuda_for)),code=compute_$(lastword $(cuda_for))
nvcc_flags   := -std=c++17 -O3 --fmad=false -I. -DFRAMED_CUDA $(filter -DFRAMED_FAULTS,$(flags)) $(architectures) --threads 2 \
                -Xcompiler -fPIE,-Wall,-Wextra
endif

objects = $(addprefix $(out)/obj/,$(addsuffix .o,$(1)))
config_objects := $(call objects,$(config_sources))
gpu_objects    := $(call objects,$(gpu_sources) $(cuda_kernels))
daemon_objects := $(call objects,$(daemon_sources))
# libframed is linked into users' programs, so it is position-independent and exports only the API.
client_objects := $(call objects,$(filter-out tools/client/example.c,$(wildcard tools/client/*.c)))
client_soname  := libframed.so.0
$(out)/obj/tools/client/%.o: private flags += -fPIC -fvisibility=hidden -Itools/client
framectl_objects := $(call objects,$(wildcard tools/framectl/*.c tools/framectl/*/*.c) daemon/wire/segment.c daemon/wire/folder.c) $(client_objects)
# Names and arithmetic of the daemon that its tools also use.
shared_objects := $(call objects,daemon/measure/ledger.c daemon/measure/overlap.c config/units.c config/suggest.c)
# framed-link uses framectl's HTTP client for the status socket.
link_objects := $(call objects,$(link_sources) $(addprefix tools/framectl/common/,problem.c progress.c text.c http.c reply.c daemon.c)) \
                $(config_objects) $(client_objects)
camera_objects := $(call objects,$(wildcard tools/camera/*.c)) $(client_objects)
$(out)/obj/tools/camera/%.o $(out)/obj/tests/unit/camera/%.o: private flags += $(if $(seccomp),-DFRAMED_SECCOMP)
# framebench's own files, and those that it shares with framectl and the daemon.
framebench_objects := $(call objects,$(framebench_sources) $(addprefix tools/framectl/,$(addprefix common/,problem.c progress.c text.c http.c reply.c daemon.c forecast.c) \
                      status/view.c) daemon/measure/histogram.c daemon/measure/diagnosis.c daemon/measure/advice.c daemon/wire/y4m.c) $(shared_objects) \
                      $(client_objects)

# -- programs ----------------------------------------------------------------------------------------------------
.PHONY: all help setup programs unit unit-programs e2e soak quick check demo demo-model lint coverage fuzz fuzz-programs install uninstall portable \
        deb check-gpu check-systems check-container bench bench-instructions bench-calls bench-system-calls bench-hostile bench-link clean FORCE
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

all: programs ## builds build/framed, build/framed-worker, build/framectl, build/framebench and, with libnats, build/framed-link, with libav build/framed-camera (the default)
programs: $(bin)/framed $(bin)/framed-worker $(bin)/framectl $(bin)/framebench $(if $(nats),$(bin)/framed-link) $(if $(libav),$(bin)/framed-camera) $(bin)/libframed.a $(bin)/libframed.so $(bin)/framed-example
	@$(if $(filter release,$(VARIANT)),mkdir -p $(filled) && NO_CUDA=$(NO_CUDA) tools/setup.sh backend)
	@$(if $(filter release,$(VARIANT)),$(if $(nats),,echo "framed-link: left out, since libnats is not installed (Debian: libnats-dev)"))
	@$(if $(filter release,$(VARIANT)),$(if $(libav)$(PORTABLE),,echo "framed-camera: left out, since libav is not installed (Debian: libavformat-dev libavcodec-dev libswscale-dev)"))
	@$(if $(filter release,$(VARIANT)),$(if $(nats),$(if $(mqtt),,echo "framed-link: without MQTT, since libmosquitto is not installed (Debian: libmosquitto-dev)")))

setup: ## installs missing packages, and prints their names
	@tools/setup.sh
	@tools/setup.sh backend

# The daemon of bench-calls counts its own calls.
counter_calls := $(call objects,tests/bench/call_counter.c)
$(bin)/framed: $(call objects,daemon/main.c) $(daemon_objects) $(call objects,$(record_sources)) $(config_objects) $(counter_$(VARIANT))
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^ $(libs)

# The worker has all of gpu/, and nothing of the daemon's.
$(bin)/framed-worker: $(call objects,$(wildcard gpu/serve/*.c)) $(gpu_objects)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^ $(libs) $(cuda_libs)

$(bin)/framectl: $(framectl_objects) $(shared_objects)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^ $(framectl_libs)

$(bin)/framed-link: $(link_objects)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^ $(libs) $(shell pkg-config --libs $(nats) $(mqtt) 2>/dev/null)

$(bin)/framed-camera: $(camera_objects)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^ $(camera_libs)

$(bin)/framebench: $(framebench_objects) $(gpu_objects)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^ $(libs) $(cuda_libs)

# One object with local internal names, so that a program may have functions of the same names.
$(bin)/libframed.a: $(client_objects)
	@mkdir -p $(@D)
	@rm -f $@
	$(call quiet,AR)$(CC) -r -nostdlib -o $(@:.a=.o) $^ && $(OBJCOPY) --localize-hidden $(@:.a=.o) && $(AR) rcs $@ $(@:.a=.o)
	@rm $(@:.a=.o)

$(bin)/$(client_soname): $(client_objects)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) -shared -Wl,-soname,$(client_soname) $(filter-out -pie,$(link)) -o $@ $^

$(bin)/libframed.so: $(bin)/$(client_soname)
	@ln -sf $(client_soname) $@

$(bin)/framed-example: $(call objects,tools/client/example.c) $(bin)/libframed.a
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^

FORCE:

# Objects depend on their flags, so that different NO_CUDA or CFLAGS are never mixed.
$(out)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(CC) $(flags) $(cuda_flags) $(nvcc_flags))' | cmp -s - $@ || \
	 printf '%s\n' '$(subst ','\'',$(CC) $(flags) $(cuda_flags) $(nvcc_flags))' > $@

# The loops of the stages are tested as they are shipped: vectorised. Coverage builds need that, too: without optimisation these
# loops take twenty times as long, and a frame takes seconds.
stages_check    := -O3
stages_asan     := -O2
stages_tsan     := -O2
stages_fuzz     := -O2
stages_coverage := -O2
$(out)/obj/gpu/stages/%.c.o: private flags += $(stages_$(VARIANT))

# Only calls in the daemon's rooms are counted, not those in stages.
rooms_calls := -finstrument-functions
$(out)/obj/daemon/%.c.o: private flags += $(rooms_$(VARIANT))

$(out)/obj/daemon/status/status.c.o: daemon/status/page.html
$(out)/obj/gpu/stages/kernel/compiler.c.o: gpu/stages/kernel/framed-kernel.h

$(out)/obj/%.c.o: %.c $(out)/flags
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(flags) $(packages) $(cuda_flags) -c -o $@ $<

$(out)/obj/%.cu.o: %.cu $(out)/flags
	@mkdir -p $(@D)
	$(call quiet,NVCC)$(NVCC) $(nvcc_flags) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

# -- GPU tests: tests/gpu/check.sh runs them on a device; gpu-parity also takes --cpu --------------------------------
gpu_tests := $(unit_folder)/gpu-parity $(unit_folder)/gpu-model
$(unit_folder)/gpu-model: $(call objects,tests/gpu/model.c) $(gpu_objects)
$(unit_folder)/gpu-parity: $(call objects,$(wildcard tests/gpu/parity*.c) tests/gpu/cases.c tests/gpu/compare.c) $(gpu_objects)
ifeq ($(with_cuda) $(VARIANT),yes check)
gpu_tests += $(unit_folder)/gpu-backend
$(unit_folder)/gpu-backend: $(call objects,$(wildcard tests/gpu/test_backend*.c) tests/gpu/backend.c tests/unit/gpu/rig.c) $(gpu_objects)
# Measures the start of a process on a device: with one kernel, and with all.
gpu_tests += $(addprefix $(unit_folder)/start-,bare whole)
$(unit_folder)/start-bare: $(call objects,tests/gpu/start_times.c tests/gpu/start_bare.c gpu/cuda/nothing.cu)
$(unit_folder)/start-whole: $(call objects,tests/gpu/start_times.c tests/gpu/start_whole.c) $(gpu_objects)
endif
$(gpu_tests):
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^ $(libs) $(unit_libs) $(cuda_libs)

# -- unit tests: one program for each directory of tests/unit --------------------------------------------------------
# tests/unit/DIR/test_NAME.c defines `Suite *NAME_suite(void)`; the list of suites is generated.
unit_dirs := $(filter-out $(if $(libav),,camera),$(notdir $(patsubst %/,%,$(wildcard tests/unit/*/))))
unit_programs := $(patsubst %,$(unit_folder)/unit-%,$(unit_dirs))
# The CUDA backend against a fake runtime, which its header finds before the real one.
unit_layers_cuda := $(call objects,$(addprefix gpu/,gpu.c open.c backend.c warm_up.c chain.c kept.c format.c cpu/cpu.c cpu/program.c cpu/frames.c cpu/host.c cpu/pool.c) tests/fault/backends.c)
$(out)/obj/tests/unit/cuda/%.o: private flags += -Itests/unit/cuda/fake
unit_layers_config := $(config_objects)
# Tests of the daemon's rooms link with one archive, and may replace any of its functions.
whole := $(out)/whole.a
$(whole): $(daemon_objects) $(gpu_objects) $(config_objects)
	@rm -f $@
	$(call quiet,AR)$(AR) rcs $@ $^
rooms := $(filter-out %.c,$(notdir $(wildcard daemon/*)))
$(foreach room,$(rooms) flow url,$(eval unit_layers_$(room) := $(whole)))
# A test compares the diagnosis with the tools' forecasts.
unit_layers_measure += $(call objects,tools/framectl/common/forecast.c)
unit_layers_gpu    := $(gpu_objects) $(call objects,tests/gpu/cases.c tests/gpu/compare.c)
unit_layers_model  := $(gpu_objects)
unit_layers_serve  := $(call objects,gpu/serve/rung.c)
unit_layers_libframed := $(client_objects)
unit_layers_camera := $(filter-out %/main.c.o,$(camera_objects))
unit_layers_tools  := $(filter-out %/main.c.o,$(framectl_objects)) $(shared_objects)
unit_layers_framebench := $(filter-out %/main.c.o,$(framebench_objects)) $(gpu_objects)

$(out)/obj/tests/unit/%/suites.c: tests/unit/%
	@mkdir -p $(@D)
	@{ echo '#include "tests/unit/runner.h"'; \
	   for suite in $(patsubst test_%.c,%,$(notdir $(wildcard $</test_*.c))); do echo "Suite *$${suite}_suite(void);"; done; \
	   echo 'const struct unit_suite unit_suites[] = {'; \
	   for suite in $(patsubst test_%.c,%,$(notdir $(wildcard $</test_*.c))); do echo "    {\"$$suite\", $${suite}_suite},"; done; \
	   echo '    {0, 0}};'; } > $@

$(out)/obj/tests/unit/%/suites.o: $(out)/obj/tests/unit/%/suites.c
	$(call quiet,CC)$(CC) $(flags) -c -o $@ $<

define unit_program
$(unit_folder)/unit-$(1): $(call objects,$(wildcard tests/unit/*.c tests/unit/$(1)/*.c)) $(out)/obj/tests/unit/$(1)/suites.o $$(unit_layers_$(1))
	@mkdir -p $$(@D)
	$$(call quiet,LINK)$$(CC) $$(link) -o $$@ $$^ $$(libs) $$(unit_libs) $$(cuda_libs) $(if $(filter camera,$(1)),$$(camera_libs))
endef
$(foreach dir,$(unit_dirs),$(eval $(call unit_program,$(dir))))

# -- test tools -----------------------------------------------------------------------------------------------------
run_stage := $(unit_folder)/run-stage
$(run_stage): $(call objects,$(wildcard tests/gpu/run_stage*.c)) $(gpu_objects)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^ $(libs) $(cuda_libs)

# A client with libframed for the end-to-end tests.
drive_client := $(unit_folder)/drive-client
$(drive_client): $(call objects,tests/client/drive.c) $(client_objects)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^

# Preloaded into a daemon to make its calls fail; never instrumented itself.
fail_call := $(unit_folder)/fail-call.so
$(fail_call): $(wildcard tests/injection/*.c tests/injection/*.h) $(out)/flags
	@mkdir -p $(@D)
	$(call quiet,CC)$(CC) $(filter-out -MMD -MP,$(common)) -O1 -fPIC -shared -o $@ $(filter %.c,$^) -ldl

unit-programs: $(unit_programs) $(gpu_tests) $(run_stage) $(drive_client) $(fail_call)

# By default TSan makes a program with several threads wait a second at its end, which would slow each test down.
unit_tsan := TSAN_OPTIONS=atexit_sleep_ms=20 CK_EXCLUDE_TAGS=no-threads
# Stages compute the same in any thread, and the other programs show TSan how frames reach them. Tests that pass with ASan need
# no second run without ASan.
unit_runs := $(unit_programs:%=run-%) $(if $(filter tsan check,$(VARIANT)),,run-parity)
.PHONY: $(unit_runs) unit-rooms run-parity
# These rooms' tests leave no state behind, so one process can run a whole room. That saves the slow end of each process.
unit_together := $(patsubst %,run-$(unit_folder)/unit-%,config cuda libframed measure)
unit: $(unit_runs) ## runs the unit tests of VARIANT (best with VARIANT=check, asan or tsan), with -j side by side
unit-rooms: $(unit_programs:%=run-%)
$(unit_programs:%=run-%): run-%: %
	@echo "== $<"; $(unit_$(VARIANT)) $(if $(filter asan tsan,$(VARIANT)),$(if $(filter $@,$(unit_together)),CK_FORK=no timeout 300)) $<
run-parity: $(unit_folder)/gpu-parity
	@echo "== $<"; $< --cpu --small

# -- the tests with real programs ----------------------------------------------------------------------------------
slow_asan := 3
slow_tsan := 6
slow_coverage := 2
e2e: programs $(run_stage) $(drive_client) $(fail_call) ## runs the end-to-end tests with the programs of VARIANT; PYTEST='-k raw --processes 4' chooses, and how many at a time
	@PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/build/pycache FRAMED_SLOW=$${FRAMED_SLOW:-$(or $(slow_$(VARIANT)),1)} \
	 FRAMED_BINARY=$(CURDIR)/$(bin)/framed FRAMED_WORKER=$(CURDIR)/$(bin)/framed-worker FRAMECTL=$(CURDIR)/$(bin)/framectl \
	 FRAMEBENCH=$(CURDIR)/$(bin)/framebench FRAMED_CAMERA=$(CURDIR)/$(bin)/framed-camera \
	 FRAMED_RUN_STAGE=$(CURDIR)/$(run_stage) \
	 FRAMED_DRIVE_CLIENT=$(CURDIR)/$(drive_client) \
	 FRAMED_FAIL_CALL=$(CURDIR)/$(fail_call) \
	 $(PYTHON) -m pytest tests/e2e -q $(PYTEST)

soak_seconds ?= 900
steady = $(shell setarch -R true 2>/dev/null && echo setarch -R) # as in tests/steps.sh
soak_e2e = FRAMED_SOAK=1 $(MAKE) --no-print-directory e2e
soak: ## runs the long tests, more than an hour. Each end-to-end test runs with ASan and with TSan. Load runs alone, twice for soak_seconds (900), with figures in build/soak-*.json. Then every call fails in turn, and 10,000 invalid states are read. Beside that run 1,000 reloads, 100 upgrades, kills under each kind of client, and 200 kills and 100 restarts by systemd
	@tools/setup.sh build check
	@+$(MAKE) --no-print-directory VARIANT=check programs unit-programs
	@+$(steady) $(MAKE) --no-print-directory VARIANT=asan e2e PYTEST="--processes 4 -m 'not (slow or plain or measures or waits or threads)' $(PYTEST)"
	@+$(steady) $(MAKE) --no-print-directory VARIANT=tsan e2e PYTEST="--processes 4 -m 'not (slow or plain or measures or waits or memory)' $(PYTEST)"
	@+FRAMED_SOAK_SECONDS=$(soak_seconds) FRAMED_SOAK_RESULTS=$(CURDIR)/build $(soak_e2e) PYTEST="-k test_soak -s $(PYTEST)"
	@+$(MAKE) --no-print-directory -j2 --output-sync=target soak-failures soak-handovers
.PHONY: soak-failures soak-handovers
soak-failures:
	@+$(soak_e2e) PYTEST="-k injection $(PYTEST)"
	@+FRAMED_MUTATE=0:10000 $(soak_e2e) VARIANT=check PYTEST="-k whatever_a_state $(PYTEST)"
soak-handovers:
	@+FRAMED_RELOADS=1000 FRAMED_OTHER_BINARY=$(CURDIR)/build/check/framed \
	  $(soak_e2e) PYTEST="-k 'reloads_under_load or upgrades_under_load or test_resume' $(PYTEST)"
	@+$(soak_e2e) VARIANT=check PYTEST="-k test_kill $(PYTEST)"
	@FRAMED_SOAK=1 tests/systemd/run.sh -k under_load -s

quick: ## sets up, builds, and runs the unit tests with and without ASan and each end-to-end test but the slowest, in four minutes
	@tools/setup.sh build check
	@tests/quick.sh

check: ## sets up and runs every test that needs no GPU, half of those with real programs also with ASan and half with TSan, in a quarter of an hour
	@tools/setup.sh build check
	@tests/check.sh

check-gpu: ## runs the tests that need an NVIDIA GPU, with build/portable where nvcc is absent; PARTS='e2e -k raw' chooses
	@tests/gpu/check.sh $(PARTS)

check-systems: ## makes roots of Debian 12 and 13, Ubuntu 22.04 and 24.04 (200 MB), and runs `make demo` and `make quick` in each; SYSTEMS='ubuntu-22.04' chooses
	@tests/systems/run.sh $(SYSTEMS)

check-container: ## builds the container image, and sends frames through it; PODMAN='podman --runtime runc' and BASE=IMAGE choose
	@tests/container.sh

fuzz_names := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_programs := $(fuzz_names:%=build/fuzz/fuzz_%)
build/fuzz/fuzz_%: build/fuzz/obj/tests/fuzz/fuzz_%.c.o $(whole)
	$(call quiet,LINK)$(CC) $(subst fuzzer-no-link,fuzzer,$(link)) -o $@ $^ $(libs)
build/fuzz/fuzz_http: build/fuzz/obj/tests/fuzz/fuzz_http.c.o build/fuzz/obj/tests/unit/status/fake_server.c.o $(whole)
	$(call quiet,LINK)$(CC) $(subst fuzzer-no-link,fuzzer,$(link)) -o $@ $^ $(libs)
fuzz-programs: $(fuzz_programs)

fuzz: ## runs each fuzz target for FUZZ_SECONDS (30) over a copy of its corpus
	@tools/setup.sh build check
	@+$(MAKE) --no-print-directory VARIANT=fuzz fuzz-programs
	@tests/fuzz/run.sh $(fuzz_names)

coverage: ## prints which lines of daemon/, config/ and gpu/ the tests reach, and fails under 85 %
	@tools/setup.sh build check lint
	@tests/coverage.sh

# -- lint: each file has a stamp, so that only what changed is looked at again ---------------------------------------
lint_c := $(filter-out $(if $(with_cuda),,gpu/cuda/% gpu/model/cuda% $(framebench_cuda) tests/gpu/%) $(if $(libav),,tools/camera/% tests/unit/camera/%),\
            $(wildcard config/*.c gpu/*.c gpu/*/*.c gpu/stages/*/*.c daemon/*.c daemon/*/*.c tools/*/*.c tools/*/*/*.c packaging/*/*.c tests/*/*.c tests/unit/*/*.c))
lint_headers := $(filter-out %.cuh $(if $(libav),,tools/camera/%) $(if $(with_cuda),,gpu/cuda/% gpu/model/cuda% $(framebench_cuda:.c=.h) tools/framebench/common/cuda%),$(wildcard config/*.h gpu/*.h gpu/*/*.h gpu/stages/*/*.h daemon/*/*.h tools/*/*.h tools/*/*/*.h tests/fault/*.h tests/gpu/*.h tests/injection/*.h tests/unit/*.h))
lint_format := $(lint_c) $(lint_headers) $(wildcard gpu/*/*.cu gpu/*/*.cuh gpu/stages/*/*.cu gpu/stages/*/*.cuh tools/framebench/*/*.cu tests/fault/*.cu)
lint_scripts := $(shell git ls-files '*.sh' .ci/run 2>/dev/null)
lint_flags = $(filter-out -MMD -MP,$(common)) $(testing) $(packages) $(cuda_flags) -Werror
lint_tidy := $(filter-out tests/%,$(lint_c))
$(patsubst %,build/lint/%.syntax,$(wildcard tests/unit/cuda/*.c)): lint_flags += -Itests/unit/cuda/fake
$(patsubst %,build/lint/tools/client/example.c.%,syntax tidy): lint_flags += -Itools/client
$(foreach example,brighten frei0r,$(patsubst %,build/lint/packaging/examples/$(example).c.%,syntax tidy)): lint_flags += -Igpu/stages/library
lint_stamps := $(lint_c:%=build/lint/%.syntax) $(lint_headers:%=build/lint/%.alone) $(lint_format:%=build/lint/%.format) \
               $(lint_tidy:%=build/lint/%.tidy) $(lint_scripts:%=build/lint/%.script)

lint: ## checks form, warnings of clang, clang-tidy, headers alone in C and C++, scripts, structure and prose
	@tools/setup.sh build check lint
	@+$(MAKE) --no-print-directory lint-stamps lint-structure
	@echo "lint: nothing to complain about"
.PHONY: lint-stamps lint-structure
lint-structure: $(bin)/framed $(bin)/framed-worker $(bin)/framectl $(bin)/framebench
	@$(PYTHON) tests/structure.py $(out)/obj $(bin)/framed
	@$(PYTHON) tests/prose.py
lint-stamps: $(lint_stamps)

build/lint/%.format: % .clang-format
	@mkdir -p $(@D)
	@clang-format --dry-run -Werror $< && touch $@
# The syntax check stores the headers of a file, so that clang-tidy checks it again when one of them changes.
build/lint/%.syntax: %
	@mkdir -p $(@D)
	@clang $(lint_flags) -fsyntax-only -MMD -MP -MF build/lint/$*.d -MT $@ -MT build/lint/$*.tidy $< && touch $@
build/lint/%.alone: % $(lint_headers)
	@mkdir -p $(@D)
	@clang $(lint_flags) -Wno-empty-translation-unit -fsyntax-only -x c -include $< /dev/null
	@clang++ $(filter-out -std=c11 -Wstrict-prototypes -Wmissing-prototypes -Wpedantic,$(lint_flags)) -std=c++17 \
	  -Wno-c99-extensions -Drestrict=__restrict -fsyntax-only -x c++ -include $< /dev/null && touch $@
build/lint/%.tidy: % .clang-tidy
	@mkdir -p $(@D)
	@clang-tidy --quiet $< -- $(lint_flags) 2>&1 | grep -v 'warnings\? generated' ; test $${PIPESTATUS[0]} -eq 0 && touch $@
build/lint/%.script: %
	@mkdir -p $(@D)
	@shellcheck -x $< && touch $@
lint-stamps: SHELL := /bin/bash

# -- the demonstration ------------------------------------------------------------------------------------------------
# Without -j the build uses all processors.
parallel = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc))
demo: ## sets up, builds, and runs a video through the daemon
	@tools/setup.sh build demo
	@+$(MAKE) --no-print-directory $(parallel) programs
	@tools/demo/demo.sh

demo-model: ## sets up, builds, and has a model find characters in a video; ./demo-model.png shows them (fetches 95 MB, once)
	@tools/setup.sh build model
	@+$(MAKE) --no-print-directory $(parallel) programs
	@tools/demo/demo-model.sh

# -- measuring --------------------------------------------------------------------------------------------------------
results ?= build/bench
bench: ## measures README's figures and many more into build/bench (results=FOLDER chooses), and prints them as a table
	@tools/setup.sh build
	@+$(MAKE) --no-print-directory programs
	@tools/framebench/measure.sh $(results)

bench-instructions: programs ## counts the instructions that a frame costs on its lane (needs valgrind)
	@$(PYTHON) tools/framebench/instructions.py --programs $(bin)

bench-calls: programs ## counts the calls of functions that a frame costs on its lane, in a build that counts itself
	@+$(MAKE) --no-print-directory VARIANT=calls build/calls/framed
	@$(PYTHON) tools/framebench/calls.py --programs $(bin)

bench-system-calls: programs ## counts the system calls that a frame in shared memory costs both sides (needs strace)
	@$(PYTHON) tools/framebench/system_calls.py --programs $(bin)

bench-hostile: programs ## measures what hostile clients cost a good one beside them, in six minutes
	@PYTHONDONTWRITEBYTECODE=1 $(PYTHON) tests/bench/hostile.py --programs $(bin)

# The reference for measurements of framed-link.
bare_nats := $(bin)/tests/bare-nats
$(bare_nats): $(call objects,tests/bench/bare_nats.c)
	@mkdir -p $(@D)
	$(call quiet,LINK)$(CC) $(link) -o $@ $^ $(shell pkg-config --libs $(nats) 2>/dev/null)

bench-link: programs $(bare_nats) ## measures framed-link under trouble and beside a bare client of NATS, in ten minutes; PARTS='rate latency trouble redelivery leader sync' chooses, sync being left out otherwise
	@PYTHONDONTWRITEBYTECODE=1 $(PYTHON) tests/bench/link.py --programs $(bin) $(if $(PARTS),--parts '$(PARTS)') $(ARGUMENTS)

# -- installation -----------------------------------------------------------------------------------------------------
# The files to install, FROM:TO:MODE. The configuration is handled separately, since an existing one is kept.
# The build makes this folder as the user, who can then remove files that `sudo make install` writes there.
filled  := build/installed
# Calls of libframed whose manual pages have other names.
client_calls := $(addprefix framed_,close info problem acquire submit cancel finish receive release fate_name poll descriptor arm)
installed_files := build/framed:bin/framed:755 build/framed-worker:libexec/framed/framed-worker:755 build/framectl:bin/framectl:755 build/framebench:bin/framebench:755 \
  $(filled)/framed.service:lib/systemd/system/framed.service:644 \
  packaging/systemd/framed@.socket:lib/systemd/system/framed@.socket:644 config/framed.yaml:share/doc/framed/framed.yaml:644 \
  packaging/systemd/framed.sysusers:lib/sysusers.d/framed.conf:644 \
  $(filled)/framed.catalog:lib/systemd/catalog/framed.catalog:644 \
  $(filled)/framed.8.gz:share/man/man8/framed.8.gz:644 \
  $(filled)/framectl.1.gz:share/man/man1/framectl.1.gz:644 \
  $(filled)/framebench.1.gz:share/man/man1/framebench.1.gz:644 \
  $(filled)/framed.yaml.5.gz:share/man/man5/framed.yaml.5.gz:644 \
  $(filled)/framed-protocol.7.gz:share/man/man7/framed-protocol.7.gz:644 \
  $(filled)/framed-models.7.gz:share/man/man7/framed-models.7.gz:644 \
  build/$(client_soname):$(LIBFOLDER)/$(client_soname):644 build/libframed.a:$(LIBFOLDER)/libframed.a:644 \
  tools/client/framed.h:include/framed.h:644 $(filled)/framed.pc:$(LIBFOLDER)/pkgconfig/framed.pc:644 \
  gpu/stages/library/framed-stage.h:include/framed-stage.h:644 gpu/stages/kernel/framed-kernel.h:include/framed-kernel.h:644 \
  $(filled)/framed-stage.3.gz:share/man/man3/framed-stage.3.gz:644 \
  packaging/examples/brighten.c:share/doc/framed/examples/brighten.c:644 \
  packaging/examples/frei0r.c:share/doc/framed/examples/frei0r.c:644 \
  tools/client/example.c:share/doc/framed/examples/example.c:644 $(filled)/libframed.3.gz:share/man/man3/libframed.3.gz:644 \
  $(filled)/framed_connect.3.gz:share/man/man3/framed_connect.3.gz:644 \
  $(foreach call,$(client_calls),$(filled)/calls/$(call).3.gz:share/man/man3/$(call).3.gz:644) \
  packaging/completions/framed.bash:share/bash-completion/completions/framed:644 \
  packaging/completions/framectl.bash:share/bash-completion/completions/framectl:644 \
  packaging/completions/framebench.bash:share/bash-completion/completions/framebench:644 \
  packaging/completions/framed.zsh:share/zsh/site-functions/_framed:644 \
  packaging/completions/framectl.zsh:share/zsh/site-functions/_framectl:644 \
  packaging/completions/framebench.zsh:share/zsh/site-functions/_framebench:644 \
  packaging/grafana/framed.json:share/framed/grafana/framed.json:644 \
  packaging/prometheus/framed.rules.yml:share/framed/prometheus/framed.rules.yml:644 \
  $(foreach file,$(wildcard config/examples/*.yaml packaging/systemd/health/* packaging/systemd/realtime.conf),$(file):share/doc/framed/examples/$(notdir $(file)):644)
ifneq ($(nats),)
installed_files += build/framed-link:bin/framed-link:755 $(filled)/framed-link.1.gz:share/man/man1/framed-link.1.gz:644 \
  $(filled)/framed-link.service:lib/systemd/system/framed-link.service:644 \
  packaging/examples/link.yaml:share/doc/framed/link.yaml:644 \
  packaging/completions/framed-link.bash:share/bash-completion/completions/framed-link:644 \
  packaging/completions/framed-link.zsh:share/zsh/site-functions/_framed-link:644
endif
ifneq ($(libav),)
installed_files += build/framed-camera:libexec/framed/framed-camera:755 $(filled)/framed-camera.8.gz:share/man/man8/framed-camera.8.gz:644
endif
# The symbolic link that linkers use.
library_link := $(DESTDIR)$(PREFIX)/$(LIBFOLDER)/libframed.so
part = $(word $(2),$(subst :, ,$(1)))
configuration := $(DESTDIR)$(SYSCONFDIR)/framed/framed.yaml

install: programs $(filter $(filled)/%,$(foreach file,$(installed_files),$(call part,$(file),1))) ## installs to DESTDIR, PREFIX (/usr/local) and SYSCONFDIR (/etc); keeps an existing configuration
	@$(foreach file,$(installed_files),install -D -m $(call part,$(file),3) $(call part,$(file),1) \
	  '$(DESTDIR)$(PREFIX)/$(call part,$(file),2)' &&) true
	@ln -sf $(client_soname) '$(library_link)'
	@install -d '$(dir $(configuration))conf.d' '$(dir $(configuration))credentials'
	@test -e '$(configuration)' || install -m 644 config/framed.yaml '$(configuration)'
	@test -n '$(DESTDIR)' || ldconfig || true
	@test -n '$(DESTDIR)' || { systemd-sysusers '$(PREFIX)/lib/sysusers.d/framed.conf' && journalctl --update-catalog; } || true
	@test -n '$(DESTDIR)' || echo "installed. Next: edit $(SYSCONFDIR)/framed/framed.yaml, then: systemctl daemon-reload && systemctl enable --now framed; where it runs already: systemctl daemon-reload && framectl upgrade"

uninstall: ## removes what install put there, but not the configuration
	@rm -f '$(library_link)' $(foreach file,$(installed_files),'$(DESTDIR)$(PREFIX)/$(call part,$(file),2)')

$(filled)/%.service: packaging/systemd/%.service.in FORCE
	@mkdir -p $(@D)
	@sed 's,@BINDIR@,$(PREFIX)/bin,; s,@SYSCONFDIR@,$(SYSCONFDIR),g' $< > $@

$(filled)/framed.catalog: packaging/systemd/catalog.c daemon/base/log_kinds.def
	@mkdir -p $(@D)
	@$(CC) -I. -o $(filled)/catalog $< && $(filled)/catalog > $@

# The program's own table supplies the keys of framed.yaml(5).
$(filled)/framed.yaml.5.gz: packaging/man/framed.yaml.5 build/framed
	@mkdir -p $(@D)
	@build/framed --print-manual > $(filled)/keys
	@sed -e '/^@KEYS@$$/{r $(filled)/keys' -e 'd}' -e 's/@VERSION@/$(VERSION)/' $< | gzip -9n > $@

$(filled)/framed.pc: packaging/framed.pc.in FORCE
	@mkdir -p $(@D)
	@sed 's,@PREFIX@,$(PREFIX),; s,@LIBFOLDER@,$(LIBFOLDER),; s,@VERSION@,$(VERSION),' $< > $@

# roff needs these backslashes.
$(filled)/libframed.3.gz: packaging/man/libframed.3 tools/client/example.c
	@mkdir -p $(@D)
	@sed 's/\\/\\e/g' tools/client/example.c > $(filled)/example
	@sed -e '/^@EXAMPLE@$$/{r $(filled)/example' -e 'd}' -e 's/@VERSION@/$(VERSION)/' $< | gzip -9n > $@

$(filled)/calls/%.3.gz:
	@mkdir -p $(@D)
	@echo '.so man3/framed_connect.3' | gzip -9n > $@

$(filled)/%.gz: packaging/man/%
	@mkdir -p $(@D)
	@sed 's/@VERSION@/$(VERSION)/' $< | gzip -9n > $@

# -- Debian packages ------------------------------------------------------------------------------------------------
# debhelper expects debian/ in its working folder, and writes beside that folder.
build_profiles := $(if $(nats),$(if $(mqtt),,pkg.framed.nomqtt),pkg.framed.nonats) $(if $(libav),,pkg.framed.nocamera)
deb: ## builds the Debian packages framed, libframed0, libframed-dev, python3-framed and, with libnats, framed-nats, with libav framed-camera into build/deb/, maintained by DEBEMAIL
	@tools/setup.sh build deb
	@+$(MAKE) --no-print-directory programs
	@test "$$(dpkg-parsechangelog -l packaging/debian/changelog -S Version)" = $(VERSION) || \
	 { echo "packaging/debian/changelog is not about version $(VERSION)" >&2; exit 1; }
	@rm -rf build/deb
	@mkdir -p build/deb/framed
	@cp -r packaging/debian build/deb/framed/debian
	@test -z "$$DEBEMAIL" || sed -i "s|The framed authors <.*>|$${DEBFULLNAME:-The builder} <$$DEBEMAIL>|" \
	  build/deb/framed/debian/control build/deb/framed/debian/changelog
	@cd build/deb/framed && FRAMED_BACKENDS='$(if $(with_cuda),both,the CPU backend alone)' \
	 dpkg-buildpackage -b -us -uc $(addprefix -P,$(subst $(space),$(comma),$(strip $(build_profiles)))) >../log 2>&1 || { tail -n 30 ../log >&2; exit 1; }
	@ls build/deb/*.deb

# -- a folder that runs elsewhere -------------------------------------------------------------------------------------
portable: ## makes build/portable/, which runs on another x86-64 Linux without installing anything
	@tools/setup.sh build portable
	@rm -rf build/portable
	@+$(MAKE) --no-print-directory PORTABLE=1 programs
	@+$(MAKE) --no-print-directory PORTABLE=1 VARIANT=check programs unit-programs
	@FRAMED_BACKENDS='$(if $(with_cuda),both backends,the CPU backend alone)' tools/portable.sh

help: ## lists the targets
	@sed -n 's/^\([a-z0-9-]*\):.* ## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

clean: ## removes everything that was built
	rm -rf build

-include $(shell find $(out)/obj build/lint -name '*.d' 2>/dev/null)
