/**
 * Loaded before agentk, which does not know it: sends its memory over IPC, after a collection (`Memory`). It is no
 * TypeScript, since Node would load its type stripper into both threads.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread } from 'node:worker_threads'

/** Pause between two collections: the first one runs finalizers. ms */
const finalizersMs = 200

if (isMainThread) {
  process.on('message', async () => {
    for (let i = 0; i < 3; i++) {
      globalThis.gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
      await sleep(finalizersMs)
    }
    const { heapUsed, external, rss } = process.memoryUsage()
    process.send?.({ heap: heapUsed, external, rss })
  })
  process.on('disconnect', () => process.exit())
  process.channel?.unref()
}
