import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Settings of V8 that a program makes once it is loaded. On the command line they would cost 50 to 100 ms of each start:
 * V8 takes compiled code, such as Node brings along for its own modules, only under the flags that it was compiled with.
 */
export const flags = {
  /** The old generation is collected once it has grown by half (doc/decisions/0016). */
  heapGrowth: ['--heap-growing-percent=50'],
  /**
   * By a fifth: for a thread that keeps much, which nobody waits for. All threads then do so, small heaps excepted: the
   * old generation grows by some MiB at least.
   */
  smallHeapGrowth: ['--heap-growing-percent=20'],
  /**
   * WebAssembly is not optimised. undici reads the heads of answers with it: V8 would begin to after three of them, for
   * 30 ms, to spare 1 µs an answer, and 13 MiB would stay behind.
   */
  simpleWasm: ['--no-wasm-dynamic-tiering', '--no-wasm-tier-up'],
} as const

export function setFlags(...some: readonly string[]): void {
  for (const flag of some) setFlagsFromString(flag)
}

/** What collects the young generation, which takes some 0.3 ms. */
export function youngCollector(): () => void {
  const gc = exposedGc()
  return () => void gc({ type: 'minor' })
}

/**
 * Collects all that starting has left behind, and the young generation becomes small again: 7 MiB, which V8 would keep
 * while little happens, for some 30 ms before there are calls.
 */
export function collectAll(): void {
  exposedGc()({ type: 'major' })
}

/**
 * Collects all that can be collected, and gives V8's spare pages back to the system. V8 keeps them for the next objects as
 * long as a program has something to do. Takes two to three times as long as `collectAll`.
 */
export function releaseAll(): void {
  exposedGc()({ type: 'major', flavor: 'last-resort' })
}

function exposedGc(): NodeJS.GCFunction {
  setFlags('--expose-gc')
  const gc = runInNewContext('gc') as NodeJS.GCFunction // only contexts that are made under the flag have it
  setFlags('--no-expose-gc')
  return gc
}
