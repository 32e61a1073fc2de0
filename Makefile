# Names only: what they do is in xtask. Arguments go through ARGS: make demo ARGS="--seconds 5".
XTASK := cargo xtask

.PHONY: demo build test test-long check sim sim-mutants fuzz bench web docs clean

demo:
	@$(XTASK) demo $(ARGS)

build:
	@$(XTASK) build

test:
	@$(XTASK) test $(ARGS)

test-long:
	@$(XTASK) test-long $(ARGS)

check:
	@$(XTASK) check

sim:
	@$(XTASK) sim $(SEED) $(ARGS)

sim-mutants:
	@$(XTASK) sim-mutants $(ARGS)

fuzz:
	@$(XTASK) fuzz $(ARGS)

bench:
	@$(XTASK) bench $(ARGS)

web:
	@$(XTASK) web

docs:
	@$(XTASK) docs

clean:
	@$(XTASK) clean
