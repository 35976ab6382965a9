/**
 * Factor by which this machine is slower than the one of test/times.json (test/runner/machine-speed.ts); in single
 * runs: 1.
 */
export const slowness = Number(process.env.KAS_TEST_SLOWNESS ?? 1)

/** Scales a limit for this machine, where `ms` are enough on that one; in whole ms, as timers need. */
export const patience = (ms: number, times = slowness): number => Math.ceil(ms * times)
