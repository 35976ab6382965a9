import { setFlagsFromString } from 'node:v8'

/**
 * Settings of V8 that a program makes once it is loaded. On the command line they would cost 50 to 100 ms of each start:
 * V8 takes compiled code, such as Node brings along for its own modules, only under the flags that it was compiled with.
 */
export const v8Flags = {
  /** The old generation is collected once it has grown by half (doc/decisions/0016). */
  heapGrowth: ['--heap-growing-percent=50'],
  /**
   * WebAssembly is not optimised: undici reads the heads of answers with it, for which V8 takes 23 MiB once and 30 ms, and
   * spares 1 µs an answer.
   */
  simpleWasm: ['--no-wasm-dynamic-tiering', '--no-wasm-tier-up'],
}

export function setV8Flags(...flags: readonly string[]): void {
  for (const flag of flags) setFlagsFromString(flag)
}
