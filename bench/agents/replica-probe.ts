/** Loaded ahead of kas, which knows nothing of it: says over IPC what the process uses. Needs --expose-gc. */
import type { CpuAnswer, MemoryAnswer, ReplicaQuestion } from './questions.ts'

/** some garbage is only free once finalizers have run */
const collections = 3

process.on('message', async ({ kind }: ReplicaQuestion) => {
  if (kind === 'live') await collect()
  process.send?.(kind === 'cpu' ? cpu() : memory())
})
process.on('disconnect', () => process.exit())
process.channel?.unref()

function cpu(): CpuAnswer {
  const { user, system } = process.cpuUsage()
  return { cpuMs: (user + system) / 1000 }
}

function memory(): MemoryAnswer {
  const { rss, heapUsed, external } = process.memoryUsage()
  return { rss, heap: heapUsed, external }
}

async function collect(): Promise<void> {
  for (let i = 0; i < collections; i++) {
    globalThis.gc?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
}
