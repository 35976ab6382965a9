import type { MethodRate } from '../../src/kas/agent-method.ts'

/** A rate without a practical limit, for tests of other parts. */
export const anyRate: MethodRate = { perSecond: 1e6, burst: 1e6, cost: { call: 1, message: 1, kib: 1 } }
