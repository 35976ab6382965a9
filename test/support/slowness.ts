/** How many times slower this machine is than the one of test/times.json (test/runner/machine-speed.ts); by hand: 1. */
export const slowness = Number(process.env.KAS_TEST_SLOWNESS ?? 1)

/** What is waited for on this machine, where `ms` are enough on that one; whole ms, as timers ask. */
export const patience = (ms: number, times = slowness): number => Math.ceil(ms * times)
