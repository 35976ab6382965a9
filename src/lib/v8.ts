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
   * WebAssembly is not optimised: undici reads the heads of answers with it, for which V8 takes 23 MiB once and 30 ms, and
   * spares 1 µs an answer.
   */
  simpleWasm: ['--no-wasm-dynamic-tiering', '--no-wasm-tier-up'],
} as const

export function setFlags(...some: readonly string[]): void {
  for (const flag of some) setFlagsFromString(flag)
}

/**
 * Collects all garbage and gives its memory back to the system: what a start leaves behind would stay for as long as there
 * is little to do. Nothing else runs meanwhile, some 50 to 100 ms after a start.
 */
export function releaseMemory(): void {
  setFlags('--expose-gc')
  const gc = runInNewContext('gc') as NodeJS.GCFunction // only contexts made under the flag have it
  setFlags('--no-expose-gc')
  gc({ type: 'major', flavor: 'last-resort' })
}
