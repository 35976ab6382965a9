/** Loaded before kas, which does not know it: sends the process's memory and CPU time over IPC. Needs --expose-gc. */
import type { CpuAnswer, MemoryAnswer, ReplicaQuestion } from './questions.ts'

/** some garbage is freed only after finalizers have run */
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
