/**
 * Loaded ahead of agentk, which knows nothing of it: says over IPC how late timers of the main thread are (`Stall`). No
 * TypeScript: Node would load what strips it, into both threads.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { isMainThread } from 'node:worker_threads'

/** between two timers. ms */
const resolution = 1

if (isMainThread) {
  const delays = monitorEventLoopDelay({ resolution })
  delays.enable()
  const late = (ns) => Math.max(0, ns / 1e6 - resolution)
  process.on('message', ({ kind }) => {
    if (kind === 'anew') delays.reset()
    process.send?.({ most: late(delays.max), p99: late(delays.percentile(99)) })
  })
  process.on('disconnect', () => process.exit())
  process.channel?.unref()
}
