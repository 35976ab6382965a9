import { parentPort } from 'node:worker_threads'
import type { ThreadAnswer, ThreadRequest } from './manifests-thread.ts'
import { partsOf, readManifests } from './read-manifests.ts'

/** What `ManifestsThread` runs: it is asked for each part, as those that come together are read together. */
let parts: ReturnType<typeof partsOf> | undefined
const answer = (message: ThreadAnswer) => parentPort?.postMessage(message)

parentPort?.on('message', (request: ThreadRequest) => {
  if (request.is === 'job') {
    const { manifests, problems } = readManifests(request.job)
    parts = partsOf(problems.length > 0 ? [] : manifests)
    answer({ is: 'read', problems })
    return
  }
  const part = parts?.next()
  if (part && !part.done) return answer({ is: 'part', manifests: part.value })
  parts = undefined
  answer({ is: 'end' })
})
