/**
 * Loaded before agentk, which does not know it: sends the delays of the main thread's timers over IPC (`Stall`). It is
 * no TypeScript, since Node would load its type stripper into both threads.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { isMainThread } from 'node:worker_threads'

/** interval of two timers. ms */
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
