import { parentPort } from 'node:worker_threads'

/** Job that the test requests. */
export type TestJob = { readonly give: string } | { readonly do: 'hang' | 'throw' | 'exit' | 'grow' | 'count' }

parentPort?.on('message', (job: TestJob) => {
  if ('give' in job) return parentPort?.postMessage(job.give)
  if (job.do === 'throw') throw new Error('by the program')
  if (job.do === 'exit') process.exit(7)
  if (job.do === 'grow') {
    const kept: string[][] = []
    for (;;) kept.push(Array.from({ length: 10_000 }, (_, i) => `${i} ${kept.length}`))
  }
  if (job.do === 'hang') for (;;);
  for (let i = 0; i < 3; i++) parentPort?.postMessage(String(i))
})
