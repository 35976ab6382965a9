import { AsyncLocalStorage } from 'node:async_hooks'

/**
 * Runs `work` as part of no span, and all that it goes on with: what is shared by callers, or outlives the one that
 * began it, is not of that one's trace, and not silenced with it.
 */
export const apart: <T>(work: () => T) => T = AsyncLocalStorage.snapshot() // while the program loads, before any call
