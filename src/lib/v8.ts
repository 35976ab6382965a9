import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Settings of V8 that a program makes once it is loaded. On the command line they would cost each start 50 to 100 ms.
 * V8 accepts compiled code only under the flags that it was compiled with. Node's own modules come as such code.
 */
export const flags = {
  /** The old generation is collected once it has grown by half (doc/decisions/0016). */
  heapGrowth: ['--heap-growing-percent=50'],
  /**
   * Growth by a fifth, for a thread that keeps much and answers no caller. The setting applies to all threads. Small
   * heaps grow by more, since the old generation grows by at least some MiB.
   */
  smallHeapGrowth: ['--heap-growing-percent=20'],
  /**
   * WebAssembly is not optimised. undici parses the heads of answers with it. V8 would optimise it after three answers,
   * for 30 ms. That saves 1 µs an answer, and 13 MiB would stay allocated.
   */
  simpleWasm: ['--no-wasm-dynamic-tiering', '--no-wasm-tier-up'],
} as const

export function setFlags(...some: readonly string[]): void {
  for (const flag of some) setFlagsFromString(flag)
}

/** Returns a function that collects the young generation, which takes some 0.3 ms. */
export function youngCollector(): () => void {
  const gc = exposedGc()
  return () => void gc({ type: 'minor' })
}

/**
 * Collects all garbage of the start, and shrinks the young generation. V8 would keep its 7 MiB while the program has
 * little to do. It takes some 30 ms, before there are calls.
 */
export function collectAll(): void {
  exposedGc()({ type: 'major' })
}

/**
 * Collects all garbage, and gives V8's spare pages back to the system. V8 keeps them for the next objects as long as a
 * program has work. Takes two to three times as long as `collectAll`.
 */
export function releaseAll(): void {
  exposedGc()({ type: 'major', flavor: 'last-resort' })
}

function exposedGc(): NodeJS.GCFunction {
  setFlags('--expose-gc')
  const gc = runInNewContext('gc') as NodeJS.GCFunction // only contexts made under the flag have it
  setFlags('--no-expose-gc')
  return gc
}
