import type { MethodRate } from '../../src/kas/agent-method.ts'

/** Of methods of tests that are about something else. */
export const anyRate: MethodRate = { perSecond: 1e6, burst: 1e6, cost: { call: 1, message: 1, kib: 1 } }
